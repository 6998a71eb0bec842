"""Days that pass, processes that die: approvals, maps, sub-workflows and schedules over real hosts and a real file."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from bext_workflow.host.clock import SystemClock
from bext_workflow.model.json import Json, JsonObject
from tests.acceptance import days
from tests.acceptance.hosts import Place, Served, install, until

pytestmark = pytest.mark.tier("ci")

DAY_MS, HOUR_MS, TWENTY_PAST_MS = 86_400_000, 3_600_000, 1_200_000

CONFIG = """
[[plugins]]
name = "days"

[[plugins.workflows]]
id = "onboarding"
steps = [
    { name = "account" },
    { name = "approval", next = "welcome", WAIT },
    { name = "remind", next = "end" },
    { name = "welcome" },
]

[[plugins.workflows]]
id = "parcels"
steps = [
    { name = "split", map = { over = "parcels", at = "send", join = "bill", max_concurrency = 50 } },
    { name = "send", next = "bill" },
    { name = "bill" },
]

[[plugins.workflows]]
id = "few"
steps = [
    { name = "split", map = { over = "parcels", at = "send", join = "bill", max_concurrency = 5 } },
    { name = "send", next = "bill" },
    { name = "bill" },
]

[[plugins.workflows]]
id = "order"
steps = [{ name = "pay" }, { name = "ship", workflow = "shipping" }, { name = "thank" }]

[[plugins.workflows]]
id = "shipping"
steps = [{ name = "pick" }, { name = "post" }]

[[plugins.workflows]]
id = "nightly"
steps = [{ name = "sweep" }]
""".replace(
    "WAIT",
    'wait = { signal = "approved", timeout_ms = 259200000, on_timeout = "remind", '
    'approval = { title = "Hire?", remind_ms = 43200000 } }',
)

SCHEDULES = """
[[plugins.schedules]]
id = "latest"
workflow = "nightly"
cron = "0 * * * *"
catch_up = "latest"

[[plugins.schedules]]
id = "all"
workflow = "nightly"
cron = "0 */6 * * *"
catch_up = "all"
overlap = "allow"

[[plugins.schedules]]
id = "skip"
workflow = "nightly"
cron = "0 * * * *"
catch_up = "skip"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return at(tmp_path, CONFIG)


def at(folder: Path, config: str) -> Place:
    place = Place(folder, config)
    shutil.copy(days.__file__, place.site / "bext_days.py")
    install(place.site, "acceptance-days", days="bext_days:plugin")
    return place


def effects(place: Place) -> list[JsonObject]:
    noted = place.folder / days.EFFECTS
    return [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()] if noted.exists() else []


def items(place: Place, what: str, step: str = "send") -> list[Json]:
    """The items in the order in which they were done, or undone; a repetition after a kill counts once."""
    found = (one["item"] for one in effects(place) if (one["what"], one["step"]) == (what, step))
    return list(dict.fromkeys(found))


def kill(host: Served) -> None:
    host.process.send_signal(signal.SIGKILL)
    assert host.ended() == -signal.SIGKILL


# An approval over days


def test_an_approval_outlives_a_kill_and_a_day(place: Place) -> None:
    """P16, P21: it waits on, a reminder that was due meanwhile is told, and a decision ends it."""
    with place.served() as host:
        run_id = host.start("onboarding", count=0)
        assert host.result(run_id)["status"] == "WAITING"
        kill(host)
    place.ahead_ms = DAY_MS
    with place.served() as host:
        until(lambda: "wait_reminded" in kinds(host, run_id), "the reminder")
        assert host.get(f"/runs/{run_id}")["status"] == "WAITING"
        (asked,) = place("approvals", "list").json["items"]
        assert asked["title"] == "Hire?"
        assert place("approvals", "approve", run_id, "--comment", "as agreed").code == 0
        until(lambda: host.get(f"/runs/{run_id}")["status"] == "COMPLETED", "the end")
        decision = host.get(f"/runs/{run_id}")["context"]["approved"]
    assert (decision["approved"], decision["comment"]) == (True, "as agreed")
    assert [one["step"] for one in effects(place)] == ["account", "welcome"]


def test_an_approval_that_nobody_gives_escalates_once_after_the_downtime(place: Place) -> None:
    """P21, P28: late after a downtime, and never lost; a decision that comes later is too late."""
    with place.served() as host:
        run_id = host.start("onboarding", count=0)
        assert host.result(run_id)["status"] == "WAITING"
        kill(host)
    place.ahead_ms = 4 * DAY_MS
    assert place("approvals", "approve", run_id).code == 0  # nobody has looked yet, and it is too late all the same
    with place.served() as host:
        until(lambda: host.get(f"/runs/{run_id}")["status"] == "COMPLETED", "the end")
        told = kinds(host, run_id)
    assert told.count("wait_ended") == 1
    assert [one["step"] for one in effects(place)] == ["account", "remind"]


def kinds(host: Served, run_id: str) -> list[str]:
    return [event["kind"] for event in host.get(f"/runs/{run_id}/events?limit=500")["items"]]


# Maps


def test_a_map_whose_failing_item_is_the_last_undoes_the_49_others_in_reverse(place: Place) -> None:
    """P10, P11, P12, over a kill in the middle of the undo."""
    hold = place.folder / "hold"
    with place.served() as host:
        run_id = host.start("parcels", count=50, fail_at=17, before=49)
        until(lambda: len(items(place, "undone")) >= 20, "the undo of 20")
        hold.touch()
        kill(host)
    hold.unlink()
    with place.served() as host:
        assert host.result(run_id)["status"] == "COMPENSATED"
        completed = sent(host, run_id)
    assert sorted(completed) == [item for item in range(50) if item != 17]
    assert items(place, "undone") == completed[::-1]


def test_a_map_that_fails_at_the_tenth_undoes_exactly_what_was_completed(place: Place) -> None:
    """P12: with five at a time, nothing of what had not begun is undone."""
    with place.served() as host:
        run_id = host.start("few", count=50, fail_at=9, before=9)
        assert host.result(run_id)["status"] == "COMPENSATED"
        completed = sent(host, run_id)
    assert items(place, "undone") == completed[::-1]
    assert set(completed) >= set(range(9))
    assert 9 not in completed


def sent(host: Served, run_id: str) -> list[int]:
    """The items whose step is done, in the order of their checkpoints."""
    return [
        event["data"]["branch"] - 1
        for event in host.get(f"/runs/{run_id}/events?limit=500")["items"]
        if (event["kind"], event["data"].get("step")) == ("step_completed", "send")
    ]


# Sub-workflows


def test_a_parents_failure_rolls_back_a_completed_child(place: Place) -> None:
    """P10 through the child, over a kill in the middle of its undo."""
    hold = place.folder / "hold"
    hold.touch()
    with place.served() as host:
        run_id = host.start("order", count=0, fails="thank")
        until(lambda: any(one["what"] == "undone" for one in effects(place)), "the first undo")
        kill(host)
    hold.unlink()
    with place.served() as host:
        until(lambda: host.get(f"/runs/{run_id}")["status"] == "COMPENSATED", "the end")
        child = next(step["child"] for step in host.get(f"/runs/{run_id}")["steps"] if step["step"] == "ship")
        assert host.get(f"/runs/{child}")["status"] == "COMPENSATED"
    undone = [one["step"] for one in effects(place) if one["what"] == "undone"]
    assert list(dict.fromkeys(undone)) == ["post", "pick", "pay"]
    assert [one["step"] for one in effects(place) if one["what"] == "done"] == ["pay", "pick", "post", "thank"]


def test_a_command_that_was_killed_while_a_child_is_undone_can_be_typed_again(place: Place) -> None:
    """P16, without a host: the run waits for its child, and who drives the run drives that too."""
    hold = place.folder / "hold"
    hold.touch()
    words = "runs", "start", "order", "--input", '{"count": 0, "fails": "thank"}', "--key", "k-1", "--wait"
    with place.process(*words) as command:
        until(lambda: any(one["what"] == "undone" for one in effects(place)), "the first undo")
        command.send_signal(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL
    hold.unlink()
    assert place(*words).code == 10
    undone = [one["step"] for one in effects(place) if one["what"] == "undone"]
    assert list(dict.fromkeys(undone)) == ["post", "pick", "pay"]


# Schedules


def test_slots_of_a_day_in_which_no_host_was_there(tmp_path: Path) -> None:
    """P23, P24: the latest, all of them, or none; and none twice, whatever is started again."""
    place = at(tmp_path, CONFIG + SCHEDULES)
    place.ahead_ms = TWENTY_PAST_MS - SystemClock().now() % HOUR_MS  # no slot is due while the test runs
    with place.served():
        until(lambda: len(place("schedules", "list").json["items"]) == 3, "the schedules")
        until(lambda: all(row["next_at"] for row in place("schedules", "list").json["items"]), "their next slots")
    place.ahead_ms += DAY_MS
    for _ in range(2):
        with place.served():
            until(lambda: len(starts(place, "all")) >= 4, "the slots of a day")
    assert len(starts(place, "latest")) == 1
    assert len(starts(place, "all")) == len(set(starts(place, "all"))) == 4
    assert starts(place, "skip") == []


def starts(place: Place, schedule: str) -> list[str]:
    """The planned instants for which a run was started."""
    found = place("runs", "list", "--tag", f"schedule={schedule}").json["items"]
    return [run["tags"]["scheduled_at"] for run in found]
