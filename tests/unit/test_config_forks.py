"""Forks, joins and maps in the config (semantics §7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.config import load_config
from bext_workflow.errors import ConfigError
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition, OnConflict
from bext_workflow.plugin.overlay import define

HEAD = '[[plugins]]\nname = "shop"\n[[plugins.workflows]]\nid = "order"\n'
JOINED = "{ name = 'b', next = 'd' }, { name = 'c', next = 'd' }, { name = 'd' }"


def steps_of(folder: Path, steps: str) -> tuple[StepDefinition, ...]:
    file = folder / "bext.config.toml"
    file.write_text(f"{HEAD}steps = [{steps}]\n")
    (plugin,) = load_config(file).plugins
    return define(plugin.workflows[0]).steps


def test_a_fork_and_its_join(tmp_path: Path) -> None:
    first, *_ = steps_of(
        tmp_path,
        f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'd', need = 1, on_conflict = 'last' }} }}, {JOINED}",
    )
    assert first.next == ("b", "c")
    assert first.join == JoinDefinition(at="d", need=1, on_conflict=OnConflict.LAST)


def test_a_join_needs_all_unless_it_says_otherwise(tmp_path: Path) -> None:
    first, *_ = steps_of(tmp_path, f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'd' }} }}, {JOINED}")
    assert first.join == JoinDefinition(at="d", need="all", on_conflict=OnConflict.FAIL)


def test_a_map(tmp_path: Path) -> None:
    first, *_ = steps_of(
        tmp_path,
        "{ name = 'a', map = { over = 'parcels', at = 'b', join = 'd', max_concurrency = 5, collect = 'shipped' } },"
        " { name = 'b', next = 'd' }, { name = 'd' }",
    )
    assert first.map == MapDefinition(over="parcels", at="b", join="d", max_concurrency=5, collect="shipped")


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'pack' }} }}, {JOINED}", "'pack', which is not a step"),
        (f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'd', need = 3 }} }}, {JOINED}", "join.need is 3 of 2"),
        (f"{{ name = 'a', next = ['b', 'b'], join = {{ at = 'd' }} }}, {JOINED}", "forks into one step twice"),
        (f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'd', ned = 1 }} }}, {JOINED}", "need"),
        (f"{{ name = 'a', next = ['b', 'c'], join = {{ at = 'd', need = 'most' }} }}, {JOINED}", "join.need"),
        (f"{{ name = 'a', next = ['b', 'c'], join = {{ }} }}, {JOINED}", "join.at"),
        ("{ name = 'a', map = { over = 'x', at = 'b', join = 'b' } }, { name = 'b' }", "are one step"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, steps: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        steps_of(tmp_path, steps)
    assert words in str(refused.value)
