"""JSON values: the one alias for them, the text form that the journal keeps, and what is refused at the door.

Text is compact UTF-8 in insertion order, as orjson writes it. `detach` turns a plugin's value into a `Document`: the
text and a private copy, equal and type-equal to what any store reads back (P46, P47).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import orjson

from bext_workflow.errors import InvalidJson

Json: TypeAlias = Any
"""A JSON value: dict with str keys, list, str, int, float, bool or None. The only `Any` of the code base."""

JsonObject: TypeAlias = dict[str, Json]

MAX_DEPTH = 200
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_LONG_DIGITS = re.compile(rb"\d{19}")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Document:
    """A JSON object in both its forms. Nobody changes `value`."""

    __slots__ = ("text", "value")

    def __init__(self, text: bytes, value: JsonObject) -> None:
        self.text = text
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Document) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Document({self.text!r})"


EMPTY = Document(b"{}", {})


def dumps(value: Json) -> bytes:
    """The text of a value that is known to be JSON."""
    return orjson.dumps(value)


def loads(text: bytes | str) -> Json:
    """The value of a text that this host wrote."""
    return orjson.loads(text)


def same_json(one: Json, other: Json) -> bool:
    """Whether two values are one and the same JSON, whatever the order of keys; `1`, `1.0` and `true` are not."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def detach(value: Mapping[str, Json], *, max_bytes: int, what: str = "value") -> Document:
    """Checks a value from outside and returns a copy of its own.

    Raises `InvalidJson` with the JSON path for NaN, infinity, bytes, tuples, cycles, non-string keys, lone surrogates,
    NUL, integers outside -2^63…2^63-1, depth over 200, and for more than `max_bytes` of text (semantics §2).
    """
    if not isinstance(value, dict):
        raise InvalidJson(f"{what} must be an object (a dict), not {_kind(value)}")
    try:
        text = orjson.dumps(value)
        copy = orjson.loads(text)
    except (TypeError, ValueError, RecursionError):
        _refuse(value)
    if copy != value or _suspicious(text):
        verify(value)
        if copy != value:
            raise InvalidJson(f"{what} does not read back equal from JSON", mend="use plain JSON types")
    if len(text) > max_bytes:
        raise InvalidJson(
            f"{what} is {len(text)} bytes of JSON, over the limit of {max_bytes}",
            mend="keep large data elsewhere and put a reference to it here",
        )
    return Document(text, copy)


def parse(text: bytes | str, *, what: str = "input") -> Json:
    """Reads JSON from outside. Raises `InvalidJson`; big integers are refused before a parser makes floats of them."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not _suspicious(raw):
        try:
            return orjson.loads(raw)
        except ValueError:
            pass  # the careful way below says what is wrong, and where
    try:
        value = json.loads(text)
    except RecursionError:
        raise InvalidJson(f"{what} is nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        raise InvalidJson(f"{what} is not JSON: {error}") from None
    verify(value)
    return value


def verify(value: Json) -> None:
    """Walks a value and raises `InvalidJson` at the first place that cannot be carried."""
    open_nodes: set[int] = set()

    def walk(node: Json, path: str, depth: int) -> None:
        reason = _leaf_fault(node)
        if reason is not None:
            raise InvalidJson(reason, path=path)
        if not isinstance(node, dict | list):
            return
        if id(node) in open_nodes:
            raise InvalidJson("a cycle: the value contains itself", path=path)
        if depth >= MAX_DEPTH:
            raise InvalidJson(f"nested more than {MAX_DEPTH} deep", path=path)
        open_nodes.add(id(node))
        if isinstance(node, dict):
            for key, item in node.items():
                _verify_key(key, path)
                walk(item, f"{path}.{key}", depth + 1)
        else:
            for index, item in enumerate(node):
                walk(item, f"{path}[{index}]", depth + 1)
        open_nodes.discard(id(node))

    walk(value, "$", 0)


def _refuse(value: Json) -> NoReturn:
    verify(value)
    raise InvalidJson("cannot be written as JSON", mend="use plain JSON types")


def _suspicious(text: bytes) -> bool:
    """Whether the text may hold what orjson lets pass and this host does not."""
    return (
        b"\\u0000" in text or _LONG_DIGITS.search(text) is not None or text.count(b"{") + text.count(b"[") > MAX_DEPTH
    )


def _leaf_fault(node: Json) -> str | None:
    match node:
        case None | bool() | dict() | list():
            return None
        case str():
            return _text_fault(node)
        case int():
            return None if INT_MIN <= node <= INT_MAX else f"the integer {_short(node)} is outside -2^63…2^63-1"
        case float():
            return None if math.isfinite(node) else f"{node} is not a JSON number"
        case tuple():
            return "a tuple would be read back as a list: use a list"
        case _:
            return f"{_kind(node)} is not a JSON type"


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "the text holds a NUL character"
    if _SURROGATE.search(text):
        return "the text holds a lone surrogate, which is not Unicode text"
    return None


def _verify_key(key: object, path: str) -> None:
    if not isinstance(key, str):
        raise InvalidJson(f"the key {key!r} is {_kind(key)}, not a string", path=path)
    reason = _text_fault(key)
    if reason is not None:
        raise InvalidJson(f"in a key, {reason}", path=path)


def _short(number: int) -> str:
    """A readable form: the decimal text of an enormous integer costs more than the check."""
    return str(number) if number.bit_length() < 256 else f"of {number.bit_length()} bits"


def _kind(value: object) -> str:
    return type(value).__name__
