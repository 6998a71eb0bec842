"""Reads requests into structs. Nothing is guessed: what is unknown, misplaced or of another type is refused by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import TypeVar, get_args, get_origin

import msgspec
from fastapi import Request

from bext_workflow.errors import InvalidJson, UsageError
from bext_workflow.faces.http.problem import ContentTypeRefused
from bext_workflow.model.json import Json, parse

S = TypeVar("S", bound=msgspec.Struct)

MAX_WAIT_MS = 60_000
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h)")


async def read_body(request: Request, shape: type[S]) -> S:
    """The body as `shape`; no body at all is an empty object.

    Raises `InvalidJson` with the path of what is wrong, `ContentTypeRefused`, and `BodyTooLarge` by way of the guard.
    """
    content_type = request.headers.get("content-type")
    text = await request.body()
    if content_type is None and not text:
        text = b"{}"
    elif (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise ContentTypeRefused(
            f"the content type is {content_type or 'not given'}", mend="send JSON as Content-Type: application/json"
        )
    value = parse(text, what="the body")
    if not isinstance(value, dict):
        raise InvalidJson("the body is not an object")
    for name in _unknown(value, shape):
        raise InvalidJson("unknown field", path=f"$.{name}", mend=_nearest(name, shape))
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        reason, path = _place(error)
        raise InvalidJson(reason, path=path, mend=_choices(reason, path, shape)) from None


def read_query(request: Request, shape: type[S]) -> S:
    """The query string as `shape`; a field that is a tuple may be repeated. Raises `UsageError`."""
    given = request.query_params
    for name in _unknown(given, shape):
        raise UsageError(f"unknown query parameter {name!r}", mend=_nearest(name, shape))
    repeatable = _repeatable(shape)
    values: dict[str, Json] = {}
    for name in given:
        every = given.getlist(name)
        if len(every) > 1 and name not in repeatable:
            raise UsageError(f"the query parameter {name!r} is given {len(every)} times", mend="give it once")
        values[name] = every if name in repeatable else every[0]
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        reason, path = _place(error)
        name = _first_name(path)
        raise UsageError(f"the query parameter {name!r}: {reason}", mend=_choices(reason, path, shape)) from None


def start_key(request: Request) -> str | None:
    """The `Idempotency-Key`: UTF-8 text. Raises `UsageError`."""
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    try:
        (key,) = (value.encode("latin-1").decode() for value in given)
    except ValueError:
        raise UsageError("the Idempotency-Key is not one UTF-8 text", mend="send one, such as a UUID") from None
    if not key:
        raise UsageError(
            "the Idempotency-Key is empty", mend="send a text of your own, such as a UUID, or no such header"
        )
    return key


def wait_ms(duration: str) -> int:
    """Milliseconds of a text such as `30s`, at most `MAX_WAIT_MS`. Raises `UsageError`."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise UsageError(
            f"the query parameter 'wait' is {duration!r}", mend="write a number and a unit: 500ms, 30s, 1m"
        )
    return min(int(match[1]) * _UNIT_MS[match[2]], MAX_WAIT_MS)


def tags_of(pairs: Iterable[str]) -> dict[str, str]:
    """The tags of repeated `key=value`. Raises `UsageError`."""
    tags: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"the query parameter 'tag' is {pair!r}", mend="write tag=key=value")
        if tags.setdefault(key, value) != value:
            raise UsageError(f"no run has two values of the tag {key!r}", mend="ask for one of them")
    return tags


@cache
def _repeatable(shape: type[msgspec.Struct]) -> frozenset[str]:
    fields = msgspec.structs.fields(shape)
    return frozenset(field.encode_name for field in fields if get_origin(field.type) is tuple)


def _unknown(names: Iterable[str], shape: type[msgspec.Struct]) -> list[str]:
    return [name for name in names if name not in shape.__struct_encode_fields__]


def _nearest(name: str, shape: type[msgspec.Struct]) -> str:
    known = shape.__struct_encode_fields__
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known) or 'none'}"


def _place(error: msgspec.ValidationError) -> tuple[str, str]:
    """What is wrong, and the JSON path where; msgspec writes `[...]` for a value of a dict."""
    reason, _, path = str(error).partition(" - at `")
    return reason, path.rstrip("`").removesuffix("[...]") or "$"


def _first_name(path: str) -> str:
    return path.removeprefix("$.").partition(".")[0].partition("[")[0]


def _choices(reason: str, path: str, shape: type[msgspec.Struct]) -> str:
    """The mend for a word that is none of the allowed ones."""
    if not reason.startswith("Invalid enum value"):
        return ""
    (declared,) = (field.type for field in msgspec.structs.fields(shape) if field.encode_name == _first_name(path))
    kinds = [kind for kind in (declared, *get_args(declared)) if isinstance(kind, type) and issubclass(kind, Enum)]
    return f"one of {', '.join(member.value for kind in kinds for member in kind)}"
