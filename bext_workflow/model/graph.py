"""What differs between two graphs of one workflow version, in words (semantics §10)."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.model.json import Json, JsonObject


def graph_diff(old: JsonObject, new: JsonObject) -> list[str]:
    """A line for each difference between two results of `WorkflowDefinition.graph`; none if they are equal."""
    before = {step["name"]: step for step in old["steps"]}
    after = {step["name"]: step for step in new["steps"]}
    lines = [f"step {name!r} is gone" for name in before if name not in after]
    lines += [f"step {name!r} is new" for name in after if name not in before]
    stayed = [name for name in before if name in after]
    moved = [name for name in after if name in before]
    if stayed != moved:
        lines.append(f"the order was {', '.join(stayed)}; it is {', '.join(moved)}")
    for name in stayed:
        lines += _changes(before[name], after[name])
    return lines


def _changes(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was != now:
            yield f"step {old['name']!r}: {key} was {_shown(was, other=now)}; it is {_shown(now, other=was)}"


def _shown(value: Json, *, other: Json) -> str:
    """The value in words; a graph leaves defaults out, and the default of a flag is the other of its two values."""
    match value, other:
        case None, bool():
            return str(not other).lower()
        case None, _:
            return "not set"
        case bool(), _:
            return str(value).lower()
        case list(), _:
            return ", ".join(value)
        case _:
            return str(value)
