"""What the host's log looks like, to a person and to a program."""

from __future__ import annotations

import json
import re

import pytest

from bext_workflow.app.logs import logger_for

Captured = pytest.CaptureFixture[str]


def fail_with(secret: str) -> None:
    raise RuntimeError(f"no connection, {len(secret)} characters")


def test_a_person_reads_time_level_event_and_fields_in_the_order_in_which_they_are_told(capsys: Captured) -> None:
    logger_for("console", 0).info("host_started", pid=4711, host_id="h-1", served=["order@1"])

    assert re.fullmatch(
        r"\d\d-\d\d \d\d:\d\d:\d\d \[info\] host_started pid=4711 host_id=h-1 served=\['order@1'\]\n",
        capsys.readouterr().err,
    )


def test_what_a_plugin_says_moves_no_cursor(capsys: Captured) -> None:
    logger_for("console", 0).error("incident_opened", reason="gone\x1b[2J\nand\x9b31m back")

    assert capsys.readouterr().err.endswith("reason='gone and31m back'\n")


def test_a_traceback_shows_no_values_of_variables(capsys: Captured) -> None:
    try:
        fail_with("s3cr3t")
    except RuntimeError as error:
        logger_for("console", 0).error("driver_crashed", exc_info=error)

    err = capsys.readouterr().err
    assert "in fail_with" in err
    assert "RuntimeError: no connection, 6 characters" in err
    assert "s3cr3t" not in err.replace('fail_with("s3cr3t")', "")


@pytest.mark.parametrize(("variable", "coloured"), [("NO_COLOR", False), ("FORCE_COLOR", True)])
def test_colours_are_as_the_environment_wants_them(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, variable: str, coloured: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    logger_for("console", 0).info("host_started")

    assert ("\x1b[" in capsys.readouterr().err) == coloured


def test_a_program_reads_one_json_object_a_line(capsys: Captured) -> None:
    logger_for("auto", 0).info("host_started", pid=4711, odd=object)

    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["event"], told["level"], told["pid"], told["odd"]) == ("host_started", "info", 4711, str(object))
    assert told["timestamp"].endswith("Z")


@pytest.mark.parametrize(("verbosity", "told"), [(-1, ["c"]), (0, ["b", "c"]), (1, ["a", "b", "c"])])
def test_how_much_is_told(capsys: Captured, verbosity: int, told: list[str]) -> None:
    logger = logger_for("json", verbosity)
    logger.debug("a")
    logger.info("b")
    logger.error("c")

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == told
