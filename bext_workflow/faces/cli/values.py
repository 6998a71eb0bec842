"""The small languages of the options: durations, JSON, assignments, tags, workflow references, instants.

Each `parse_*` raises a `BextError` for text that is not of its language; `Parsed` makes an option's type of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import click

from bext_workflow.errors import BextError, InvalidJson, UsageError
from bext_workflow.model.json import Json, JsonObject, parse

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_REFERENCE = re.compile(r"(?P<id>[^@]+)(?:@(?P<version>\d+))?")


class Parsed(click.ParamType[T], Generic[T]):
    """The type of an option whose text goes through `parse`; what that raises is a usage error of the option."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except BextError as error:
            raise click.BadParameter(str(error), ctx, param) from error


class OneOf(click.Choice[E], Generic[E]):
    """The values of an enum: shown as they are, taken in any case."""

    def __init__(self, choices: type[E]) -> None:
        super().__init__(choices)
        self._values = {choice.value.casefold(): choice.value for choice in choices}

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        text = str(choice)
        return self._values.get(text.casefold(), text)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return f"Choose from {', '.join(self._values.values())}"


class WorkflowRef(NamedTuple):
    """`checkout@2`; without a version it means the highest."""

    id: str
    version: int | None


class Assignment(NamedTuple):
    """`a.b=1`: the value for a place in an object."""

    path: tuple[str, ...]
    value: Json


class Tag(NamedTuple):
    """`team=payments`."""

    name: str
    value: str


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None


def parse_duration(text: str) -> int:
    """Ms of `500ms`, `30s`, `1.5m` or `2h`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a duration", mend="write it like 500ms, 30s, 5m or 1h")
    number, unit = found.groups()
    return round(float(number) * _UNIT_MS[unit])


def parse_reference(text: str) -> WorkflowRef:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} does not name a workflow", mend="write it like checkout or checkout@2")
    version = found["version"]
    return WorkflowRef(found["id"], int(version) if version else None)


def parse_json(text: str) -> Json:
    """A JSON value, written out, or read from `@file` or from stdin (`-`)."""
    match text:
        case "-":
            return parse(sys.stdin.read(), what="stdin")
        case _ if text.startswith("@"):
            return parse(_read(Path(text[1:])), what=text[1:])
        case _:
            return parse(text, what=repr(text) if len(text) <= 40 else "the text")


def parse_object(text: str) -> JsonObject:
    """`parse_json` of an object."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise InvalidJson("it must be an object", mend='write it like {"order_id": "o-1"}')
    return value


def parse_assignment(text: str) -> Assignment:
    """The value is taken as JSON where it is JSON, else as the string that it is."""
    place, equals, value = text.partition("=")
    path = tuple(place.split("."))
    if not equals or not all(path):
        raise UsageError(f"{text!r} sets nothing", mend="write it like customer.name=Ada or quantity=2")
    return Assignment(path, _json_or_text(value))


def parse_tag(text: str) -> Tag:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is not a tag", mend="write it like team=payments")
    return Tag(name, value)


def parse_instant(text: str) -> str:
    """RFC 3339 in UTC of a date or an instant; without an offset it is local time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not an instant", mend="write it like 2026-11-30 or 2026-11-30T21:52Z") from None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def assigned(base: JsonObject, assignments: Iterable[Assignment]) -> JsonObject:
    """A copy of `base` with each value in its place; objects on the way are made where there are none."""
    result = dict(base)
    for path, value in assignments:
        _put(result, path, value)
    return result


def _put(target: JsonObject, path: tuple[str, ...], value: Json) -> None:
    *way, last = path
    for depth, name in enumerate(way, start=1):
        inner = target.get(name, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"cannot set {'.'.join(path)}: {'.'.join(way[:depth])} is not an object",
                mend="set the whole of it, or another key",
            )
        target[name] = inner = dict(inner)
        target = inner
    target[last] = value


def _json_or_text(text: str) -> Json:
    return parse(text, what=repr(text)) if _is_json(text) else text


def _is_json(text: str) -> bool:
    """NaN and infinity are no JSON: `--set name=NaN` means the string."""
    try:
        json.loads(text, parse_constant=_refuse)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
