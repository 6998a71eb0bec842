from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path

import pytest

from bext_workflow.errors import BextError
from bext_workflow.faces.cli.values import (
    assigned,
    parse_assignment,
    parse_duration,
    parse_instant,
    parse_json,
    parse_object,
    parse_reference,
    parse_tag,
)
from bext_workflow.model.json import Json


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("1.5s", 1_500), ("0s", 0)]
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1 s", "1d", "1s2", "∞s", "1e3s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BextError, match=r"not a duration — write it like 500ms"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.0", 1.0),
        ("true", True),
        ("null", None),
        ('"1"', "1"),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ("", ""),
        ("Ada Lovelace", "Ada Lovelace"),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("007", "007"),
    ],
)
def test_a_set_value_is_json_where_it_is_json_else_a_string(text: str, value: Json) -> None:
    taken = parse_assignment(f"a.b={text}").value

    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize("text", ["99999999999999999999", "[" * 300 + "]" * 300, r'"\ud800"'])
def test_a_set_value_that_no_context_can_carry_is_refused(text: str) -> None:
    with pytest.raises(BextError):
        parse_assignment(f"a={text}")


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ".a=1", "a.=1", ""])
def test_an_assignment_needs_a_path(text: str) -> None:
    with pytest.raises(BextError, match="sets nothing"):
        parse_assignment(text)


def test_assignments_go_inward_and_leave_the_input_alone() -> None:
    base = {"customer": {"name": "Ada", "address": {"city": "London"}}, "n": 1}

    result = assigned(
        base, map(parse_assignment, ["customer.address.zip=N1", "customer.age=36", "new.deep.x=[]", "n=2"])
    )

    assert result == {
        "customer": {"name": "Ada", "age": 36, "address": {"city": "London", "zip": "N1"}},
        "n": 2,
        "new": {"deep": {"x": []}},
    }
    assert base == {"customer": {"name": "Ada", "address": {"city": "London"}}, "n": 1}


def test_an_assignment_into_what_is_no_object_names_the_place() -> None:
    with pytest.raises(BextError, match=r"cannot set a\.b\.c: a\.b is not an object"):
        assigned({"a": {"b": 1}}, [parse_assignment("a.b.c=1")])


@pytest.mark.parametrize(
    ("text", "reference"),
    [("checkout", ("checkout", None)), ("checkout@2", ("checkout", 2)), ("a.b-c_1@10", ("a.b-c_1", 10))],
)
def test_workflow_references(text: str, reference: tuple[str, int | None]) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize("text", ["", "@1", "checkout@", "checkout@x", "checkout@1@2", "checkout@-1"])
def test_what_names_no_workflow_is_refused(text: str) -> None:
    with pytest.raises(BextError, match="does not name a workflow"):
        parse_reference(text)


def test_json_comes_from_text_from_a_file_or_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"order_id": "ö-1"}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))

    assert parse_json('{"a": 1}') == {"a": 1}
    assert parse_json(f"@{file}") == {"order_id": "ö-1"}
    assert parse_json("-") == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be an object"),
        ('{"a": NaN}', r"\$\.a: nan is not a JSON number"),
        ('{"a": 12345678901234567890}', r"\$\.a: the integer 12345678901234567890 is outside"),
        ("@no-such-file.json", "cannot read no-such-file.json: No such file"),
    ],
)
def test_bad_input_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BextError, match=message):
        parse_object(text)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(b"\xff\xfe{}")

    with pytest.raises(BextError, match="is not UTF-8 text"):
        parse_json(f"@{file}")


def test_tags() -> None:
    assert parse_tag("team=a=b") == ("team", "a=b")
    with pytest.raises(BextError, match="is not a tag"):
        parse_tag("team")


def test_instants_without_an_offset_are_local_time() -> None:
    assert parse_instant("2026-11-30T21:52:07.123Z") == "2026-11-30T21:52:07.123Z"
    assert parse_instant("2026-11-30T21:52:07+02:00") == "2026-11-30T19:52:07.000Z"
    assert datetime.fromisoformat(parse_instant("2026-11-30")).astimezone().hour == 0
    with pytest.raises(BextError, match="is not an instant"):
        parse_instant("yesterday")
