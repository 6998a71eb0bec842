"""What differs between two definitions of one workflow version, in words (semantics §10)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bext_workflow.model.definition import WorkflowDefinition
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


def policy_diff(old: WorkflowDefinition, new: WorkflowDefinition) -> list[str]:
    """A line for each difference between two definitions of one graph; none if they say the same."""
    before, after = dict(_flat(old)), dict(_flat(new))
    return [
        f"{name} was {_worded(before.get(name))}; it is {_worded(after.get(name))}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


def _flat(value: msgspec.Struct, head: str = "") -> Iterator[tuple[str, Json]]:
    """Every field by its path, such as `step 'pay': retries.max_attempts`."""
    for name, inner in msgspec.structs.asdict(value).items():
        match inner:
            case msgspec.Struct():
                yield from _flat(inner, f"{head}{name}.")
            case tuple() if name == "steps":
                for step in inner:
                    yield from _flat(step, f"step {step.name!r}: ")
            case _:
                yield head + name, msgspec.to_builtins(inner)


def _worded(value: Json) -> str:
    match value:
        case None | "" | []:
            return "not set"
        case str():
            return repr(value)
        case _:
            return msgspec.json.encode(value).decode()


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
