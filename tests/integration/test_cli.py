"""The command line over the real thing: the app, the reference plugin, a store in a file, processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from bext_workflow.__main__ import wiring
from bext_workflow.faces.cli.main import run
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.ports.store import HostRow
from bext_workflow.stores import SqliteStore
from tests.checkout import CONFIG
from tests.unit.plugin_support import PLUGIN, installer

APPROVAL = """
[[plugins.workflows]]
id = "approval"
steps = [
    { name = "reserve_stock", compensate_on_failure = true },
    { name = "approve", wait = { signal = "approved", into = "decision", timeout_ms = 86400000, on_timeout = "end" } },
    { name = "rest", sleep_ms = 1 },
    { name = "charge_card", idempotent = false, retries = { max_attempts = 1 } },
]
"""
"""A workflow of the reference plugin with steps that the host does."""

ORDER = {
    "order_id": "o-1",
    "sku": "widget",
    "quantity": 2,
    "payment_method": "pm_ok",
    "email": "ada@example.com",
}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        return json.loads(self.out)


def place_order(**changes: Json) -> list[str]:
    return ["runs", "start", "checkout", "--input", json.dumps({**ORDER, **changes})]


class Shop:
    """A folder with the config of this repository; commands are called as if they were typed there."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.pid = 0
        """Of the last host that was served."""
        self._capfd = capfd

    def __call__(self, *words: str) -> Done:
        self._capfd.readouterr()
        code = run(wiring, words)
        return Done(code, *self._capfd.readouterr())

    @contextmanager
    def served(self, listen: str = "127.0.0.1:0") -> Iterator[str]:
        """A host of its own process over this folder, until the block ends; hands out its URL."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        words = ["serve", "--listen", listen, "--ready-file", str(ready), "--drain-timeout", "5s"]
        with process(*words, cwd=self.folder) as host:
            self.pid = host.pid
            told = json.loads(wait_for(ready, host))
            assert told["pid"] == self.pid
            yield told["url"]
            host.terminate()
            assert host.wait(timeout=45) == 0


@contextmanager
def process(*words: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "bext_workflow", *words],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def wait_for(file: Path, host: subprocess.Popen[str]) -> str:
    """The text of a file that the process is about to write."""
    while host.poll() is None:
        if file.exists() and (text := file.read_text(encoding="utf-8")).endswith("}"):
            return text
        time.sleep(0.01)
    assert host.stderr is not None
    raise AssertionError(host.stderr.read())


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shop:
    for name in [name for name in os.environ if name.startswith("BEXT_") or name == "UV_RUN_RECURSION_DEPTH"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the demo makes its folder
    (tmp_path / "bext.config.toml").write_text(CONFIG, encoding="utf-8")
    return Shop(tmp_path, capfd)


def steps_of(view: JsonObject) -> dict[str, str]:
    return {step["step"]: step["status"] for step in view["steps"]}


def test_an_order_that_goes_well_ends_with_0(shop: Shop) -> None:
    done = shop(*place_order(), "--wait", "--tag", "team=a", "--key", "k-1")

    assert done.code == 0
    assert done.json["status"] == "COMPLETED"
    assert steps_of(done.json) == {
        "reserve_stock": "completed",
        "charge_card": "completed",
        "send_receipt": "completed",
    }
    assert {"reservation_id", "charge_id", "receipt_id"} < set(done.json["context"])
    assert (done.json["tags"], done.json["key"]) == ({"team": "a"}, "k-1")


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"payment_method": "pm_declined"}, 10, "COMPENSATED"),
        ({"email": "bounce@example.com"}, 10, "COMPENSATED"),
        ({"sku": "unknown"}, 11, "FAILED"),
        ({"sku": "jammed", "email": "bounce@example.com"}, 11, "FAILED"),
    ],
)
def test_the_exit_code_tells_how_an_order_ended(shop: Shop, changes: JsonObject, code: int, status: str) -> None:
    done = shop(*place_order(**changes), "--wait")
    assert (done.code, done.json["status"]) == (code, status)

    run_id = done.json["run_id"]
    assert shop("runs", "result", run_id).code == code
    assert shop("runs", "watch", run_id).code == code
    assert shop("runs", "show", run_id) == Done(0, shop("runs", "show", run_id).out, "")


def test_watching_tells_every_step(shop: Shop) -> None:
    done = shop(*place_order(email="bounce@example.com"), "--watch")

    told = [line.split("  ", 1)[1] for line in done.err.splitlines()[1:]]
    assert done.code == 10
    assert [line for line in told if "compensated" in line] == [
        "↶  step compensated  charge_card",
        "↶  step compensated  reserve_stock",
        "↶  run compensated",
    ]


def test_without_a_host_a_start_waits_in_the_store(shop: Shop) -> None:
    started = shop(*place_order())
    run_id = started.json["run_id"]

    assert started.code == 0
    assert started.err == "no host drives this store: run `bext-host serve`, or use --wait\n"
    assert shop("runs", "result", run_id).code == 13
    assert [item["run_id"] for item in shop("runs", "list", "--status", "pending").json["items"]] == [run_id]
    with shop.served() as url:
        assert shop("runs", "result", run_id, "--wait=20s", "--url", url).code == 0


def test_a_start_key_answers_the_same_run_and_refuses_another_start(shop: Shop) -> None:
    first = shop(*place_order(), "--key", "k")
    again = shop(*place_order(), "--key", "k")
    other = shop(*place_order(quantity=3), "--key", "k")

    assert again.json["run_id"] == first.json["run_id"]
    assert "the key was used before" in again.err
    assert (other.code, other.out) == (5, "")
    assert other.err.startswith("error: ")


def test_ids_may_be_shortened_as_long_as_they_are_clear(shop: Shop) -> None:
    first = shop(*place_order()).json["run_id"]
    assert shop("runs", "show", first[:8]).json["run_id"] == first
    shop(*place_order())

    ambiguous = shop("runs", "show", first[:2])
    unknown = shop("runs", "show", str(uuid.UUID(int=0)))

    assert (ambiguous.code, ambiguous.out) == (5, "")
    assert (unknown.code, unknown.out) == (4, "")
    assert ambiguous.err.startswith("error: ")
    assert unknown.err.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "events", "ffff"],
        ["runs", "result", "ffff"],
        ["runs", "watch", "ffff"],
        ["runs", "cancel", "ffff"],
        ["runs", "cancel", "ffff", "--dry-run"],
        ["runs", "retry", "ffff"],
        ["runs", "signal", "ffff", "approved"],
        ["runs", "pause", "ffff"],
        ["runs", "resume", "ffff"],
        ["incidents", "show", "ffff"],
        ["incidents", "resolve", "ffff", "--action", "retry", "--note", "n"],
        ["runs", "start", "chekout"],
        ["runs", "start", "checkout@9"],
        ["workflows", "show", "chekout"],
        ["plugins", "show", "workflow"],
    ],
)
def test_what_is_not_there_is_4(shop: Shop, words: list[str]) -> None:
    done = shop(*words)

    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("what", ["runs", "incidents"])
@pytest.mark.parametrize("cursor", ["", "nonsense", "0193a4c0", "0193A4C0-0000-7000-8000-000000000001"])
def test_a_cursor_that_no_page_gave_is_no_page(shop: Shop, what: str, cursor: str) -> None:
    done = shop(what, "list", "--cursor", cursor)

    assert (done.code, done.out) == (2, "")
    assert f"the cursor {cursor!r} is not one of this list" in done.err


def test_events_are_the_journal(shop: Shop) -> None:
    run_id = shop(*place_order(), "--wait").json["run_id"]

    events = shop("runs", "events", run_id).json["items"]

    assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[0]["seq"] + len(events)))
    assert events[0]["kind"] == "run_created"
    assert [event["data"]["step"] for event in events if event["kind"] == "step_completed"] == [
        "reserve_stock",
        "charge_card",
        "send_receipt",
    ]
    assert "run_completed" in {event["kind"] for event in events}


def test_a_run_that_has_not_begun_is_cancelled_by_the_next_host(shop: Shop) -> None:
    run_id = shop(*place_order()).json["run_id"]

    plan = shop("runs", "cancel", run_id, "--dry-run")
    assert (plan.code, plan.json["undo"]) == (0, [])
    acknowledged = shop("runs", "cancel", run_id, "--reason", "changed my mind")
    assert acknowledged.code == 0
    assert acknowledged.json == {"run_id": run_id, "act": "cancel", "driven": False}
    assert acknowledged.err.startswith("no host drives this store")
    with shop.served() as url:
        assert shop("runs", "result", run_id, "--wait=20s", "--url", url).code == 12


def test_what_has_ended_cannot_be_cancelled_or_retried(shop: Shop) -> None:
    run_id = shop(*place_order(), "--wait").json["run_id"]

    for words in (["cancel"], ["cancel", "--dry-run"], ["retry"]):
        refused = shop("runs", words[0], run_id, *words[1:])
        assert (refused.code, refused.out) == (5, "")
        assert "COMPLETED" in refused.err


def test_a_failing_undo_is_answered_and_the_next_host_finishes_the_rollback(shop: Shop) -> None:
    failed = shop(*place_order(sku="jammed", email="bounce@example.com"), "--wait").json
    (incident,) = shop("incidents", "list").json["items"]

    assert (incident["run_id"], incident["kind"]) == (failed["run_id"], "compensation_failed")
    assert shop("incidents", "show", incident["id"]).json == incident
    card = shop("runs", "show", failed["run_id"], "-o", "table").out
    assert f"bext-host incidents resolve {incident['id']} --action retry --note" in card
    wrong = shop("incidents", "resolve", incident["id"], "--action", "done", "--note", "n")
    assert wrong.code == 5
    assert "retry" in wrong.err
    assert shop("incidents", "resolve", incident["id"], "--action", "retry", "--note", "the shelf is free").code == 0
    with shop.served() as url:
        while shop("incidents", "list", "--url", url).json["items"]:
            time.sleep(0.01)  # until the host has taken the answer the run is FAILED
        assert shop("runs", "watch", failed["run_id"], "--url", url).code == 10
        (answered,) = shop("incidents", "list", "--all", "--url", url).json["items"]
    assert answered["resolution"]["note"] == "the shelf is free"


def test_over_a_url_every_answer_is_the_same_as_straight_on_the_store(shop: Shop) -> None:
    with shop.served() as url:
        started = shop(*place_order(), "--wait", "--url", url)
        failed = shop(*place_order(sku="jammed", email="bounce@example.com"), "--watch", "--url", url)
        run_id = started.json["run_id"]
        assert (started.code, failed.code) == (0, 11)
        assert started.json["key"]
        for words in (
            ["runs", "list"],
            ["runs", "show", run_id],
            ["runs", "show", run_id, "-o", "table"],
            ["runs", "events", run_id],
            ["runs", "list", "-o", "jsonl"],
            ["incidents", "list"],
            ["workflows", "list"],
            ["plugins", "list"],
            ["runs", "cancel", run_id],
            ["runs", "start", "checkout", "--key", started.json["key"]],
            ["runs", "show", "ffff"],
        ):
            assert shop(*words, "--url", url) == shop(*words), words


def test_a_served_store_has_one_driver_and_takes_direct_commands(shop: Shop) -> None:
    with shop.served() as url:
        second = shop("serve", "--listen", "127.0.0.1:0")
        started = shop(*place_order())
        waited = shop(*place_order(), "--wait")

        assert second.code == 5
        assert f"process {shop.pid}" in second.err
        assert (started.code, started.err) == (0, "")
        assert waited.code == 0
        assert shop("runs", "result", started.json["run_id"], "--wait=20s").code == 0
    assert shop("runs", "show", started.json["run_id"], "--url", url).code == 6


def test_an_address_in_use_keeps_the_host_from_driving(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = shop("serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}")

    assert refused.code == 5
    assert refused.err.startswith("error: 127.0.0.1:")
    assert "is in use" in refused.err


async def test_a_host_takes_its_seat_after_a_command_that_drives_one_run(shop: Shop) -> None:
    """Whoever types `serve` while a `runs start --wait` is under way need not type it again."""
    store, ready = SqliteStore(shop.folder / "bext.db"), shop.folder / "ready.json"
    await store.open(migrate=True)
    await store.join(HostRow(host_id="command", pid=812, hostname="here", started_at=0, only="the-run"))
    with process("serve", "--listen", "127.0.0.1:0", "--ready-file", str(ready), cwd=shop.folder) as host:
        assert host.stderr is not None
        told = json.loads(await asyncio.to_thread(host.stderr.readline))
        assert (told["event"], told["pid"], told["run_id"]) == ("host_waits", 812, "the-run")
        await store.close()
        assert json.loads(await asyncio.to_thread(wait_for, ready, host))["pid"] == host.pid


@pytest.fixture
def terminal() -> Iterator[None]:
    """SIGINT as a terminal gives it to a program: one that is started in the background inherits it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("terminal")
def test_ctrl_c_while_waiting_is_130_and_the_run_lives_on(shop: Shop) -> None:
    with process(*place_order(sku="flaky"), "--watch", cwd=shop.folder) as waiting:
        assert waiting.stderr is not None
        for line in waiting.stderr:
            if "attempt failed" in line:
                break
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=45) == 130
        assert "Traceback" not in waiting.stderr.read()
    (left,) = shop("runs", "list").json["items"]
    assert left["status"] == "RUNNING"
    with shop.served() as url:
        assert shop("runs", "result", left["run_id"], "--wait=20s", "--url", url).code == 0


@pytest.fixture
def approval(shop: Shop) -> Shop:
    (shop.folder / "bext.config.toml").write_text(CONFIG + APPROVAL, encoding="utf-8")
    return shop


def ask_for_approval(shop: Shop, *words: str) -> Done:
    return shop("runs", "start", "approval", "--input", json.dumps(ORDER), *words)


def test_a_run_that_waits_ends_the_wait_for_it_with_13_and_says_what_to_type(approval: Shop) -> None:
    started = ask_for_approval(approval, "--wait")
    run = started.json

    assert (started.code, run["status"], run["step"]) == (13, "WAITING", "approve")
    assert steps_of(run) == {"reserve_stock": "completed", "approve": "waiting"}
    (wait,) = run["waits"]
    assert (wait["step"], wait["visit"], wait["signal"]) == ("approve", 1, "approved")
    assert wait["opened_at"] < wait["due_at"]
    card = approval("runs", "show", run["run_id"], "-o", "table").out
    assert f"bext-host runs signal {run['run_id']} approved" in card
    assert approval("runs", "result", run["run_id"], "--wait=20s").code == 13


def test_a_watched_start_tells_the_wait(approval: Shop) -> None:
    done = ask_for_approval(approval, "--watch")

    assert done.code == 13
    assert "◷  wait opened  approve  for signal approved, until " in done.err.splitlines()[-1]


def test_a_signal_is_listed_at_once_and_carried_out_by_the_next_host(approval: Shop) -> None:
    """P26: without a host, and with one; a second one with its id is the same."""
    run_id = ask_for_approval(approval, "--wait").json["run_id"]
    words = ["runs", "signal", run_id, "approved", "--payload", '{"by": "ada"}', "--id", "s-1"]

    sent, again = approval(*words), approval(*words)

    assert (sent.code, sent.json) == (0, {"run_id": run_id, "act": "signal", "driven": False})
    assert sent.err.startswith("no host drives this store")
    assert again == sent
    (signal,) = approval("runs", "show", run_id).json["signals"]
    assert (signal["name"], signal["id"], signal["state"], signal["payload"]) == (
        "approved",
        "s-1",
        "waiting",
        {"by": "ada"},
    )
    with approval.served() as url:
        ended = approval("runs", "watch", run_id, "--url", url)
    assert ended.code == 0
    assert ended.json["context"]["decision"] == {"by": "ada"}
    assert ended.json["signals"] == [{**signal, "state": "taken"}]
    assert steps_of(ended.json) == {
        "reserve_stock": "completed",
        "approve": "completed",
        "rest": "completed",
        "charge_card": "completed",
    }
    late = approval("runs", "signal", run_id, "approved")
    assert (late.code, late.out) == (5, "")
    assert "COMPLETED" in late.err


def test_a_paused_run_says_so_and_goes_on_when_it_is_resumed(approval: Shop) -> None:
    run_id = ask_for_approval(approval, "--wait").json["run_id"]
    with approval.served() as url:
        assert approval("runs", "pause", run_id, "--reason", "audit", "--url", url).code == 0
        held = approval("runs", "result", run_id, "--wait=20s", "--url", url)
        while held.json["status"] == "WAITING":  # until the host has taken the act up
            held = approval("runs", "show", run_id, "--url", url)
        assert (held.json["status"], held.json["holds"]) == ("SUSPENDED", ["paused"])
        assert approval("runs", "result", run_id, "--url", url).code == 14
        assert approval("runs", "pause", run_id, "--url", url).code == 5
        card = approval("runs", "show", run_id, "-o", "table", "--url", url).out
        assert f"--url {url} runs resume {run_id} --reason" in card
        assert approval("runs", "resume", run_id, "--url", url).code == 0
        assert approval("runs", "resume", run_id, "--url", url).code == 5
        assert approval("runs", "signal", run_id, "approved", "--url", url).code == 0
        ended = approval("runs", "watch", run_id, "--url", url)
    assert (ended.code, ended.json["holds"]) == (0, [])
    assert [signal["id"] is None for signal in ended.json["signals"]] == [False]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["approved", "--payload", json.dumps("x" * 65_536)], 2),
        (["not a name"], 2),
    ],
)
def test_what_is_no_signal_is_refused(approval: Shop, words: list[str], code: int) -> None:
    run_id = ask_for_approval(approval).json["run_id"]

    refused = approval("runs", "signal", run_id, *words)

    assert (refused.code, refused.out) == (code, "")
    assert approval("runs", "show", run_id).json["signals"] == []


def test_waits_are_checked_and_shown(approval: Shop) -> None:
    checked = approval("check", "--strict")
    assert (checked.code, checked.json["findings"]) == (0, [])
    shown = approval("workflows", "show", "approval")
    assert shown.json["steps"][1]["wait"]["signal"] == "approved"
    table = approval("workflows", "show", "approval", "-o", "table").out
    said = "waits for the signal approved into decision, at most 1 d, then it goes to end"
    assert said in " ".join(table.split())


def test_a_wait_that_is_too_short_is_13(shop: Shop) -> None:
    done = shop(*place_order(sku="flaky"), "--wait=200ms")
    assert (done.code, done.json["status"]) == (13, "RUNNING")


def test_a_good_config_passes_the_check_and_shows_what_is_in_it(shop: Shop) -> None:
    assert shop("check").code == 0
    assert shop("config", "show").json["host"]["listen"] == "127.0.0.1:7420"
    assert [item["id"] for item in shop("workflows", "list").json["items"]] == ["checkout"]
    (plugin,) = shop("plugins", "list").json["items"]
    assert (plugin["name"], plugin["distribution"]) == ("workflow-pg", "bext-workflow-pg")


@pytest.mark.parametrize(
    ("store", "code", "said"),
    [
        ("mysql://there/shop", "config-invalid", "no plugin opens the store"),
        ("sqlite:nowhere/bext.db", "store-unusable", "check that the folder exists"),
        ("sqlite:.", "store-unusable", "cannot be opened"),
    ],
)
def test_a_store_that_cannot_be_used_is_a_finding(shop: Shop, store: str, code: str, said: str) -> None:
    (shop.folder / "bext.config.toml").write_text(f'[host]\nstore = "{store}"\n{CONFIG}', encoding="utf-8")

    checked = shop("check")

    (found,) = checked.json["findings"]
    assert (checked.code, checked.err, found["code"]) == (3, "", code)
    assert said in f"{found['message']} {found['mend']}"


def test_a_workflow_is_shown_with_every_value_that_is_in_effect(shop: Shop) -> None:
    """Those that nobody has stated too."""
    steps = shop("workflows", "show", "checkout").json["steps"]
    table = shop("workflows", "show", "checkout", "-o", "table").out

    for step in steps:
        assert set(step) == set(StepDefinition.__struct_fields__)
        assert set(step["retries"]) == set(step["compensation_retries"]) == set(RetryPolicy.__struct_fields__)
    assert steps[0]["timeout_ms"] == 60_000
    assert [msgspec.convert(step, StepDefinition) for step in steps][1].retries == RetryPolicy.none()
    assert "3 attempts, 500 ms × 2, at most 5 s; time-out 1 min" in table


def test_a_check_configures_each_plugin_once(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hooks may cost time, or ask a service: `check` and what it says of the live runs share one loading."""
    shop(*place_order())
    configure = '    @hookimpl\n    def configure(self, config):\n        print("configured")\n'
    installer(tmp_path, monkeypatch)(f"{PLUGIN}\n{configure}")
    (shop.folder / "bext.config.toml").write_text(f'{CONFIG}\n[[plugins]]\nname = "shop"\n', encoding="utf-8")

    checked = shop("check")

    assert (checked.code, checked.err) == (0, "configured\n")


@pytest.mark.parametrize(("config", "said"), [("[host]\nlisen = 1\n", "listen"), ("[[plugins]\n", "at line 1")])
def test_a_config_that_cannot_be_read_is_3_everywhere(shop: Shop, config: str, said: str) -> None:
    (shop.folder / "bext.config.toml").write_text(config, encoding="utf-8")

    for words in (["check"], ["config", "show"], ["serve"], place_order(), ["runs", "list"], ["plugins", "list"]):
        refused = shop(*words)
        assert refused.code == 3, words
        assert said in refused.out + refused.err


@pytest.mark.parametrize(
    ("config", "fault", "plugin"),
    [
        ('[[plugins]]\nname = "no-such-plugin"\n', "no-such-plugin", "no-such-plugin"),
        (CONFIG.replace('name = "send_receipt"', 'name = "send_recept"'), "send_recept", "workflow-pg"),
    ],
)
def test_a_plugin_that_cannot_be_used_stops_check_serve_and_start(
    shop: Shop, config: str, fault: str, plugin: str
) -> None:
    (shop.folder / "bext.config.toml").write_text(config, encoding="utf-8")

    checked, served, started = shop("check"), shop("serve", "--listen", "127.0.0.1:0"), shop(*place_order())

    assert (checked.code, served.code, started.code) == (3, 3, 3)
    assert fault in checked.out
    assert fault in served.err
    assert started.err == served.err
    assert shop("runs", "list").code == 0
    (listed,) = shop("plugins", "list").json["items"]
    assert (listed["name"], listed["workflows"]) == (plugin, [])
    assert fault in listed["error"]
    assert fault in shop("plugins", "list", "-o", "table").out
    assert fault in shop("plugins", "show", plugin, "-o", "table").out
    assert f"cannot be used: {plugin}" in shop("workflows", "list").err


def test_a_workflow_that_is_surely_not_the_broken_plugins_is_not_found(shop: Shop) -> None:
    text = CONFIG.replace('name = "send_receipt"', 'name = "send_recept"')
    (shop.folder / "bext.config.toml").write_text(text, encoding="utf-8")

    unknown = shop("runs", "start", "chekout")

    assert unknown.code == 4
    assert "these plugins cannot be used: workflow-pg" in unknown.err


def test_no_config_at_all_is_3_and_says_what_to_do(shop: Shop) -> None:
    (shop.folder / "bext.config.toml").unlink()

    done = shop("runs", "list")

    assert done.code == 3
    assert "bext-host init" in done.err


def test_init_writes_files_and_never_overwrites(shop: Shop) -> None:
    first = shop("init", "my-shop")
    again = shop("init", "my-shop")

    assert first.code == 0
    assert all(Path(file).exists() for file in first.json["files"])
    assert again.code == 5


def test_init_says_what_to_type_next(shop: Shop) -> None:
    there = shop("init", "my shop", "-o", "table").out
    (shop.folder / "here").mkdir()
    with contextlib.chdir(shop.folder / "here"):
        here = shop("init").json["next"]

    assert "pip install -e 'my shop'\n" in there
    assert "    bext-host -c 'my shop/bext.config.toml' runs start order --wait\n" in there
    assert [line.removeprefix("uv ") for line in here] == [
        "pip install -e .",
        "bext-host check",
        "bext-host serve",
        "bext-host runs start order --wait",
    ]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("words", [["demo"], ["demo", "--crash"]])
def test_the_demo_shows_every_ending(shop: Shop, words: list[str]) -> None:
    done = shop(*words)

    lines = done.out.splitlines()
    assert done.code == 0
    assert any(line.startswith("all goes well") and line.split()[-1] == "COMPLETED" for line in lines)
    assert any(line.startswith("the receipt bounces") and line.split()[-1] == "COMPENSATED" for line in lines)
    assert "8 runs: 4 COMPLETED, 2 COMPENSATED, 2 FAILED" in lines
    assert any("incidents resolve" in line for line in lines)
    assert ("The host was killed and is back" in done.out) == ("--crash" in words)


@pytest.mark.tier("ci")
def test_the_demo_as_data(shop: Shop) -> None:
    done = shop("demo", "-o", "json")

    assert done.code == 0
    assert {item["status"] for item in done.json["items"]} == {"COMPLETED", "COMPENSATED", "FAILED"}


@pytest.mark.tier("ci")
def test_help_is_there_in_150_ms(tmp_path: Path) -> None:
    def one_call() -> float:
        before = os.times().elapsed
        with process("--help", cwd=tmp_path) as called:
            assert called.wait() == 0
        return os.times().elapsed - before

    assert min(one_call() for _ in range(7)) < 0.150


def test_the_description_of_the_api_is_that_which_is_served(shop: Shop) -> None:
    printed = shop("openapi").json
    with shop.served() as url, urllib.request.urlopen(f"{url}/openapi.json", timeout=10) as served:
        assert json.loads(served.read()) == printed


def test_the_check_says_that_another_address_needs_a_token(shop: Shop) -> None:
    config = shop.folder / "bext.config.toml"
    config.write_text(f"[host]\nlisten = '0.0.0.0:7420'\n{CONFIG}", encoding="utf-8")

    def found() -> list[str]:
        return [finding["code"] for finding in shop("check").json["findings"] if finding["severity"] == "error"]

    assert found() == ["open-to-others"]
    assert shop("runs", "list").code == 0  # now there is a store
    assert found() == ["open-to-others"]
    assert shop("tokens", "create", "ops", "--scope", "admin").code == 0
    assert found() == []


def test_another_address_than_this_machines_needs_a_token_and_then_takes_it(shop: Shop) -> None:
    refused = shop("serve", "--listen", "0.0.0.0:0")
    assert refused.code == 3
    assert "there are no access tokens" in refused.err
    assert "bext-host tokens create" in refused.err

    made = shop("tokens", "create", "ops", "--scope", "view", "--scope", "start:*", "--expires", "1h")
    assert made.code == 0
    assert "kept nowhere" in made.err
    token = made.json["token"]
    assert token not in shop("tokens", "list").out
    assert [one["name"] for one in shop("tokens", "list").json["items"]] == ["ops"]

    with shop.served(listen="0.0.0.0:0") as served:
        url = served.replace("0.0.0.0", "127.0.0.1")
        assert shop("workflows", "list", "--url", url).code == 7
        assert shop("workflows", "list", "--url", url, "--token", token).code == 0
        started = shop(*place_order(), "--url", url, "--token", token)
        assert started.code == 0
        refused = shop("runs", "cancel", started.json["run_id"], "--url", url, "--token", token)
        assert (refused.code, "token:ops lacks the scope 'operate'" in refused.err) == (7, True)

    assert shop("tokens", "revoke", "ops", "--reason", "done").json["state"] == "revoked"
