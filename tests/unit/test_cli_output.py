from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.output import Output
from bext_workflow.faces.cli.screen import Screen
from bext_workflow.faces.cli.text import one_line, plain, wants_colour
from bext_workflow.model.view import PluginView

VIEW = PluginView(name="p", distribution="d", version="1", hooks=[], workflows=["é\x9b31m\u202e"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_is_pretty_and_jsonl_is_one_object_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    Output("json", quiet=False).show(VIEW, lambda screen: None)
    pretty = capfd.readouterr().out
    Output("jsonl", quiet=False).show(VIEW, lambda screen: None)
    line = capfd.readouterr().out

    assert pretty.startswith('{\n  "name": "p",\n')
    assert line.count("\n") == 1
    assert json.loads(pretty) == json.loads(line)


def test_json_keeps_the_value_and_escapes_what_a_terminal_may_obey(capfd: pytest.CaptureFixture[str]) -> None:
    Output("json", quiet=False).show(VIEW, lambda screen: None)

    written = capfd.readouterr().out
    assert r"é\u009b31m\u202e" in written
    assert json.loads(written)["workflows"] == VIEW.workflows


def test_a_list_is_a_page_in_json_and_lines_with_a_note_of_the_rest_in_jsonl(capfd: pytest.CaptureFixture[str]) -> None:
    Output("json", quiet=False).show_list([VIEW, VIEW], lambda screen: None, next_cursor="c9")
    page = json.loads(capfd.readouterr().out)
    Output("jsonl", quiet=False).show_list([VIEW, VIEW], lambda screen: None, next_cursor="c9")
    lines, note = capfd.readouterr()

    assert list(page) == ["items", "next_cursor"]
    assert (len(page["items"]), page["next_cursor"]) == (2, "c9")
    assert [json.loads(line)["name"] for line in lines.splitlines()] == ["p", "p"]
    assert note == "there is more: --cursor c9\n"


def test_an_empty_list_is_said_to_be_empty_to_people_only(capfd: pytest.CaptureFixture[str]) -> None:
    said = {}
    for form in ("table", "json", "jsonl"):
        Output(form, quiet=False).show_list([], lambda screen: screen.table(("run",), []))
        said[form] = capfd.readouterr().out

    assert said == {"table": "none\n", "json": '{\n  "items": [],\n  "next_cursor": null\n}\n', "jsonl": ""}


def test_quiet_keeps_notes_back_but_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    output = Output("json", quiet=True)
    output.note("never mind")
    output.warn("mind this")

    assert capfd.readouterr().err == "warning: mind this\n"


@pytest.mark.parametrize(
    ("evil", "harmless"),
    [
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\after", "after"),
        ("a\x9b31mb", "a31mb"),
        ("\x1bcreset", "reset"),
        ("back\x08\x08\x08\x7f", "back"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("unfinished \x1b]0;title", "unfinished "),
        ("unfinished \x1b[", "unfinished "),
    ],
)
def test_escape_sequences_and_control_characters_never_reach_a_terminal(evil: str, harmless: str) -> None:
    assert plain(evil) == harmless


def test_one_line_is_one_line() -> None:
    assert one_line("a\r\nb\tc\u2028d  e") == "a b cd e"
    assert plain("a\r\nb\tc") == "a\nb\tc"


def test_a_table_takes_no_markup_and_no_escape_from_its_text() -> None:
    screen = Terminal()
    Screen(screen).table(("name [bold]x", "v"), [(Cell("[red]r[/red] :smile: \x1b[31mx"), Cell("https://x 123"))])

    drawn = screen.getvalue()
    assert "[red]r[/red] :smile: x" in drawn
    assert "\x1b[31m" not in drawn


def test_what_is_no_terminal_gets_whole_lines() -> None:
    paper = io.StringIO()
    Screen(paper).table(("run", "reason"), [(Cell("0193a4c0-0000-7000-8000-000000000001"), Cell("because " * 50))])

    assert "because " * 49 in paper.getvalue()
    assert "\x1b" not in paper.getvalue()


RUN_ID = "0193a4c0-0000-7000-8000-000000000001"


def drawn(width: int, monkeypatch: pytest.MonkeyPatch, *, spare: str | None = None) -> list[str]:
    """A list with an id, words of a fixed length and words of any length, on a terminal of that width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Terminal()
    rows = [(Cell(RUN_ID), Cell("COMPENSATED"), Cell("reserve_stock"), Cell("the mail bounced, so it was undone"))]
    Screen(screen).table(("run", "status", "step", "reason"), rows, spare=spare)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_a_table_is_drawn_where_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heads, _, row = drawn(120, monkeypatch)

    assert heads.split() == ["run", "status", "step", "reason"]
    assert row == f"{RUN_ID}   COMPENSATED   reserve_stock   the mail bounced, so it was undone"


def test_with_less_room_words_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    heads, _, row, *rest = drawn(90, monkeypatch)

    assert heads.split() == ["run", "status", "step", "reason"]
    assert row.startswith(f"{RUN_ID}   COMPENSATED   reserve_stock   the mail")
    assert rest


def test_with_still_less_room_what_can_be_spared_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    heads, _, row, *_ = drawn(80, monkeypatch, spare="step")

    assert heads.split() == ["run", "status", "reason"]
    assert row.startswith(f"{RUN_ID}   COMPENSATED   the mail")


@pytest.mark.parametrize(("width", "spare"), [(80, None), (60, "step"), (20, "step")])
def test_where_no_table_fits_each_row_is_an_entry_and_what_is_copied_is_whole(
    monkeypatch: pytest.MonkeyPatch, width: int, spare: str | None
) -> None:
    first, *rest = drawn(width, monkeypatch, spare=spare)

    assert first == RUN_ID
    assert all(line.startswith("  ") and len(line) <= width for line in rest)
    assert " ".join(" ".join(rest).split()) == "COMPENSATED · reserve_stock · the mail bounced, so it was undone"


@pytest.mark.parametrize(
    ("environment", "terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour(environment: dict[str, str], terminal: bool, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()

    assert wants_colour(stream) is colour
    Screen(stream).fields([("status", cells.step_status("failed"))])
    assert ("\x1b[" in stream.getvalue()) is colour


BROKEN_PIPE = """
import sys
from bext_workflow.faces.cli.main import run
from tests.unit.cli_support import RUN, Shelf, ShelfWiring
sys.exit(run(lambda: ShelfWiring(Shelf(*[RUN] * 5000)), ["runs", "list", "--limit", "5000", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("form", ["json", "jsonl", "table"])
def test_a_reader_that_goes_away_is_nothing_to_speak_of(form: str) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-c", BROKEN_PIPE, "-o", form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=buffered,
    ) as lister:
        assert lister.stdout is not None
        assert lister.stderr is not None
        lister.stdout.readline()
        lister.stdout.close()
        said = lister.stderr.read()

    assert (said, lister.returncode) == ("", 0)
