"""`bext-host` as an operator meets it: processes that are killed, drained and started again over one folder."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.hosts import GATES, Place, until
from tests.acceptance.saga import ORDER
from tests.checkout import CONFIG

pytestmark = pytest.mark.tier("ci")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("workflow", ["gate", "thread"])
def test_kill_9_from_outside_while_a_step_runs_repeats_that_attempt_only(place: Place, workflow: str) -> None:
    """P1, P3, P16: runs that were started over HTTP and directly; the restart has the store at once."""
    with place.served() as host:
        over_http = host.start(workflow)
        place.wait_for_calls(1)
        direct = place("runs", "start", workflow).json["run_id"]
        place.wait_for_calls(2)
        host.process.send_signal(signal.SIGKILL)
        assert host.ended() == -signal.SIGKILL
        place.open_the_gate()
        with place.served() as heir:
            for run_id in (over_http, direct):
                run = heir.result(run_id)
                assert (run["status"], run["context"]) == ("COMPLETED", {"wait": 1, "after": 1})
                calls = [(call.key, call.attempt) for call in place.calls() if call.run == run_id]
                assert calls == [(f"{run_id}:wait", 1), (f"{run_id}:wait", 1), (f"{run_id}:after", 1)]


def test_a_second_serve_is_refused_and_names_the_first(place: Place) -> None:
    with place.served() as host:
        second = place("serve", "--listen", "127.0.0.1:0")

        assert second.code == 5
        assert f"process {host.process.pid}" in second.err
        assert "Traceback" not in second.err
        assert host.result(host.start("checkout", **ORDER))["status"] == "COMPLETED"


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_lets_the_running_step_end_and_starts_no_other(place: Place, told: signal.Signals) -> None:
    """P50: meanwhile the host answers, and says that it takes no more work; it exits with 0."""
    with place.served() as host:
        run_id = host.start("thread")
        place.wait_for_calls(1)
        host.process.send_signal(told)
        host.heard("draining")
        assert (host.probe("/livez"), host.probe("/readyz")) == (200, 503)
        late = host.start("gate")
        place.open_the_gate()
        assert host.ended() == 0
    assert [call.key for call in place.calls()] == [f"{run_id}:wait"]

    with place.served() as heir:
        assert heir.result(run_id)["context"] == {"wait": 1, "after": 1}
        assert heir.result(late)["status"] == "COMPLETED"
        kinds = [event["kind"] for event in heir.get(f"/runs/{run_id}/events")["items"]]
    assert kinds == ["run_created", "step_completed", "step_completed", "run_completed"]


def test_a_second_signal_stops_at_once(place: Place) -> None:
    """P50: the exit code says that it was no clean drain; the run is made good as after a crash."""
    with place.served() as host:
        run_id = host.start("thread")
        place.wait_for_calls(1)
        host.process.send_signal(signal.SIGTERM)
        host.heard("draining")
        host.process.send_signal(signal.SIGTERM)
        assert host.ended() == 130
    place.open_the_gate()
    with place.served() as heir:
        assert heir.result(run_id)["status"] == "COMPLETED"
    assert [call.key for call in place.calls()].count(f"{run_id}:wait") == 2


@pytest.mark.parametrize("workflow", ["gate", "thread"])
def test_a_step_that_hangs_is_cut_off_when_the_drain_takes_too_long(place: Place, workflow: str) -> None:
    """P50: the host exits with 0; the attempt that was cut off is as after a crash, the same one again."""
    with place.served("--drain-timeout", "300ms") as host:
        run_id = host.start(workflow)
        place.wait_for_calls(1)
        host.process.terminate()
        assert host.ended() == 0
    place.open_the_gate()
    with place.served() as heir:
        assert heir.result(run_id)["context"] == {"wait": 1, "after": 1}
        kinds = [event["kind"] for event in heir.get(f"/runs/{run_id}/events")["items"]]
    assert kinds.count("recovered") == 1
    assert [(call.key, call.attempt) for call in place.calls()][:2] == [(f"{run_id}:wait", 1)] * 2


@pytest.mark.parametrize("door", ["http", "store"])
def test_a_cancel_during_a_drain_is_taken_and_carried_out_by_the_next_host(place: Place, door: str) -> None:
    """P18, P50: operator commands work while the host drains."""
    with place.served() as host:
        run_id = host.start("gate")
        place.wait_for_calls(1)
        host.process.terminate()
        host.heard("draining")
        if door == "http":
            assert host.post(f"/runs/{run_id}/cancel", reason="no") == 202
        else:
            assert place("runs", "cancel", run_id, "--reason", "no").code == 0
        place.open_the_gate()
        assert host.ended() == 0
    with place.served() as heir:
        assert heir.result(run_id)["status"] == "COMPENSATED"
    assert [call.key for call in place.calls()] == [f"{run_id}:wait", f"{run_id}:wait:compensate"]


def test_kill_9_during_a_drain_is_as_any_other_kill(place: Place) -> None:
    """P50: crash-only."""
    with place.served() as host:
        run_id = host.start("gate")
        place.wait_for_calls(1)
        host.process.terminate()
        host.heard("draining")
        host.process.kill()
        assert host.ended() == -signal.SIGKILL
    place.open_the_gate()
    with place.served() as heir:
        assert heir.result(run_id)["status"] == "COMPLETED"
    assert [call.key for call in place.calls()].count(f"{run_id}:wait") == 2


def test_an_undo_that_fails_is_retried_with_a_live_host(place: Place) -> None:
    """P13: the run is FAILED with an incident; the answer finishes the rollback from there."""
    with place.served() as host:
        run_id = host.start("checkout", **{**ORDER, "sku": "jammed", "email": "bounce@example.com"})
        assert host.result(run_id)["status"] == "FAILED"
        (incident,) = host.get(f"/incidents?run_id={run_id}")["items"]
        answer = place("incidents", "resolve", incident["id"], "--action", "retry", "--note", "the shelf is free")
        assert answer.code == 0
        assert place("runs", "result", run_id, "--wait=20s").code == 10


def test_an_undo_that_fails_is_retried_on_the_store_and_by_the_next_host(place: Place) -> None:
    """P13: nobody has to be there when the answer is given."""
    order = json.dumps({**ORDER, "sku": "jammed", "email": "bounce@example.com"})
    failed = place("runs", "start", "checkout", "--input", order, "--wait")
    assert (failed.code, failed.json["status"]) == (11, "FAILED")
    (incident_id,) = failed.json["holds"]
    answer = place("incidents", "resolve", incident_id, "--action", "retry", "--note", "the shelf is free")
    assert (answer.code, answer.json["driven"]) == (0, False)

    with place.served() as host:
        assert host.result(failed.json["run_id"])["status"] == "COMPENSATED"


def test_kill_9_of_a_command_that_drives_its_own_run(place: Place) -> None:
    """P3, P16: `runs start --wait` without a host is a host for that one run, and dies like one."""
    with place.process("runs", "start", "gate", "--wait") as driver:
        place.wait_for_calls(1)
        driver.kill()
    place.open_the_gate()
    with place.served() as host:
        assert host.result(place.calls()[0].run)["status"] == "COMPLETED"


def test_two_commands_that_wait_both_see_their_runs_end(place: Place) -> None:
    """Without a host, the one that comes second drives its run when the first one is done (semantics §11)."""
    with place.process("runs", "start", "gate", "--wait") as first:
        place.wait_for_calls(1)
        with place.process("runs", "start", "checkout", "--input", json.dumps(ORDER), "--wait") as second:
            assert second.stderr is not None
            assert second.stderr.readline().startswith("run ")
            place.open_the_gate()
            assert (first.wait(timeout=45), second.wait(timeout=45)) == (0, 0)


def test_starts_straight_on_the_store_while_a_host_drives_it(place: Place) -> None:
    """P40: many processes write one file at once, and none of them is told that it is locked."""
    order = json.dumps(ORDER)
    with place.served() as host, ExitStack() as commands:
        starts = [
            commands.enter_context(place.process("runs", "start", "checkout", "--input", order)) for _ in range(6)
        ]
        own = [host.start("checkout", **ORDER) for _ in range(20)]
        started = [json.loads(start.communicate(timeout=45)[0])["run_id"] for start in starts]
        assert [start.returncode for start in starts] == [0] * len(starts)
        assert {host.result(run_id)["status"] for run_id in own + started} == {"COMPLETED"}


def test_processes_of_a_plugin_die_with_their_host(tmp_path: Path) -> None:
    """P45, P50: however the host ends, and whatever they do: a call is under way, and is made again."""
    place = Place(tmp_path, CONFIG + GATES.replace('name = "gate"', 'name = "gate"\nisolation = "process"'))
    with place.served() as host:
        run_id = host.start("gate")
        place.wait_for_calls(1)
        workers = _children_of(host.process.pid)
        assert workers
        host.process.send_signal(signal.SIGKILL)
        assert host.ended() == -signal.SIGKILL
        until(lambda: not any(_runs(pid) for pid in workers), "the plugin's processes to end")
    place.open_the_gate()
    with place.served() as heir:
        assert heir.result(run_id)["status"] == "COMPLETED"
    calls = [(call.key, call.attempt) for call in place.calls()]
    assert calls == [(f"{run_id}:wait", 1), (f"{run_id}:wait", 1), (f"{run_id}:after", 1)]


def _children_of(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text(encoding="utf-8").split()]


def _runs(pid: int) -> bool:
    """A process that has ended and that nobody has asked after yet does not count."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
