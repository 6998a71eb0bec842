"""`schedules …` on the command line; the service is `cli_support`'s."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from bext_workflow import errors
from bext_workflow.faces.cli.main import run
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import TriggerRequest
from tests.unit.cli_support import AT, RUN, Shelf, ShelfWiring

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "URL", "TOKEN", "OUTPUT", "QUIET", "VERBOSE"):
        monkeypatch.delenv(f"BEXT_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TZ", "UTC")


def call(shelf: Shelf, *words: str) -> int:
    return run(lambda: ShelfWiring(shelf), words)


def test_list_shows_how_each_stands(capsys: Captured) -> None:
    assert call(Shelf(), "schedules", "list", "-o", "table") == 0
    nightly, weekly, yearly = capsys.readouterr().out.splitlines()[-3:]
    assert nightly.split()[:2] == ["nightly", "checkout"]
    assert "30 2 * * *" in nightly
    assert "Europe/Madrid" in nightly
    assert nightly.split()[-1] == "skipped"
    assert "paused" in weekly
    assert "not enabled" in yearly


def test_list_as_json_is_the_resource(capsys: Captured) -> None:
    assert call(Shelf(), "schedules", "list") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in listed["items"]] == ["nightly", "weekly", "yearly"]
    assert listed["items"][0]["last_result"] == "skipped"


def test_next_shows_both_clocks(capsys: Captured) -> None:
    shelf = Shelf()
    assert call(shelf, "schedules", "next", "nightly", "--limit", "2") == 0
    assert json.loads(capsys.readouterr().out)["items"] == [{"at": AT, "local": "2026-11-30T22:52:07+01:00"}] * 2
    assert call(shelf, "schedules", "next", "nightly", "-o", "table") == 0
    assert capsys.readouterr().out.count("2026-11-30T22:52:07+01:00") == 5
    assert shelf.asked == [("nightly", 2), ("nightly", 5)]
    assert call(shelf, "schedules", "next", "nightly", "--limit", "0") == 2


@pytest.mark.parametrize(("act", "paused"), [("pause", True), ("resume", False)])
def test_pause_and_resume_show_the_schedule(capsys: Captured, act: str, paused: bool) -> None:
    shelf = Shelf()
    assert call(shelf, "schedules", act, "nightly", "--reason", "the ledger moves") == 0
    assert json.loads(capsys.readouterr().out)["paused"] is paused
    assert shelf.asked == [(act, "nightly", "the ledger moves")]
    assert call(shelf, "schedules", act, "nightly", "-o", "table") == 0
    assert ("paused" in capsys.readouterr().out) is paused


def test_trigger_shows_the_run(capsys: Captured) -> None:
    shelf = Shelf(driven=False)
    assert call(shelf, "schedules", "trigger", "nightly", "--reason", "month end", "--key", "k") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["run_id"] == RUN.run_id
    assert "no host drives this store" in said.err
    assert shelf.asked == [("nightly", TriggerRequest(reason="month end", key="k"))]


def test_trigger_that_waits_tells_how_it_went() -> None:
    shelf = Shelf(replace(RUN, status=WorkflowStatus.FAILED))
    assert call(shelf, "schedules", "trigger", "nightly", "--wait=5s") == 11
    assert shelf.waited == [5_000]


def test_what_the_service_refuses_is_one_line(capsys: Captured) -> None:
    shelf = Shelf(error=errors.Conflict("the schedule 'nightly' is paused already"))
    assert call(shelf, "schedules", "pause", "nightly") == 5
    assert "paused already" in capsys.readouterr().err
    assert call(shelf, "schedules", "pase") == 2
