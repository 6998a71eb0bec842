"""Every property of this stage is named by a test, and the table of the guarantees tells which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.properties import GUARANTEES, STAGE, by_property, named_in, renewed, rows

TABLE = list(rows(GUARANTEES.read_text(encoding="utf-8")))


@pytest.mark.parametrize("number", STAGE, ids="P{}".format)
def test_a_property_of_this_stage_has_a_test_and_a_statement(number: int) -> None:
    assert by_property()[number]
    assert number in {stated for stated, _, _ in TABLE}


def test_the_tests_in_the_table_do_name_the_property() -> None:
    """Tests come and go: the table may lag behind new ones, but claims none that is not there."""
    named = by_property()
    claimed = {
        (number, part.partition(")")[0].removeprefix("../"))
        for number, _, files in TABLE
        for part in files.split("](")[1:]
    }
    assert {(number, file) for number, file in claimed if file not in named[number]} == set()
    assert len(claimed) > len(STAGE)


def test_no_statement_is_without_a_test() -> None:
    assert [number for number, _, files in TABLE if files == "–"] == []


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ('def test_it(): """P7 and P46."""', {7, 46}),
        ("def test_p7_alone(): ...", {7}),
        ('class TestIt:\n    """P9"""\n    async def test_it(self): ...', {9}),
        ('"""P8–P10"""\ndef test_it(): ...', {8, 9, 10}),
        ('"""P8, for helpers"""\ndef helper(): ...', set()),
        ('def helper(): """P7"""', set()),
        ('def test_it(): """HTTP2, MP3, P100"""', set()),
    ],
)
def test_what_counts_as_naming_a_property(source: str, named: set[int]) -> None:
    assert named_in(source) == named


def test_the_last_column_is_written_anew() -> None:
    text = "| P1 | It holds. | – |\n| P2 | So does this. | [old](../old.py) |\nmore\n"
    file = str(Path("tests") / "test_it.py")
    assert renewed(text, {1: {file}}) == (
        "| P1 | It holds. | [test_it](../tests/test_it.py) |\n| P2 | So does this. | – |\nmore\n"
    )
