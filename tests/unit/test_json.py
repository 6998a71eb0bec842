"""What JSON this host carries: the same verdict wherever a value comes from (P46), and the same value back (P47)."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bext_workflow.errors import InvalidJson
from bext_workflow.model.json import INT_MAX, INT_MIN, MAX_DEPTH, Json, JsonObject, detach, dumps, loads, parse, verify

MIB = 1_048_576


class Point(msgspec.Struct):
    x: int


def cyclic() -> JsonObject:
    inner: JsonObject = {}
    inner["again"] = [inner]
    return {"a": inner}


def nested(depth: int) -> JsonObject:
    value: Json = 1
    for _ in range(depth - 1):
        value = [value]
    return {"a": value}


REFUSED: dict[str, tuple[JsonObject, str]] = {
    "nan": ({"a": {"b": [0, math.nan]}}, "$.a.b[1]"),
    "infinity": ({"a": math.inf}, "$.a"),
    "minus infinity": ({"a": -math.inf}, "$.a"),
    "bytes": ({"a": [b"x"]}, "$.a[0]"),
    "tuple": ({"a": (1, 2)}, "$.a"),
    "set": ({"a": {1}}, "$.a"),
    "datetime": ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "$.a"),
    "uuid": ({"a": UUID(int=1)}, "$.a"),
    "decimal": ({"a": Decimal(1)}, "$.a"),
    "struct": ({"a": Point(1)}, "$.a"),
    "object": ({"a": object()}, "$.a"),
    "cycle": (cyclic(), "$.a.again[0]"),
    "integer key": ({"a": {1: 2}}, "$.a"),
    "lone surrogate": ({"a": "x\ud800"}, "$.a"),
    "lone surrogate in a key": ({"a": {"\udfff": 1}}, "$.a"),
    "nul": ({"a": ["x\0y"]}, "$.a[0]"),
    "nul in a key": ({"a\0": 1}, "$"),
    "2^63": ({"a": 2**63}, "$.a"),
    "below -2^63": ({"a": -(2**63) - 1}, "$.a"),
    "an enormous integer": ({"a": 10**5000}, "$.a"),
    "too deep": (nested(MAX_DEPTH + 1), "$.a" + "[0]" * (MAX_DEPTH - 1)),
    "far too deep": (nested(100_000), "$.a" + "[0]" * (MAX_DEPTH - 1)),
}


@pytest.mark.parametrize(("value", "path"), REFUSED.values(), ids=list(REFUSED))
def test_p46_refused_with_the_path(value: JsonObject, path: str) -> None:
    with pytest.raises(InvalidJson) as refused:
        detach(value, max_bytes=MIB)
    assert refused.value.path == path
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", [None, [], "x", 1, Point(1)], ids=repr)
def test_p46_only_an_object_is_a_context(value: Json) -> None:
    with pytest.raises(InvalidJson, match="must be an object"):
        detach(value, max_bytes=MIB)


def test_p46_over_the_limit() -> None:
    value = {"a": "x" * 100}
    assert detach(value, max_bytes=len(dumps(value))).value == value
    with pytest.raises(InvalidJson, match="over the limit of 107"):
        detach(value, max_bytes=len(dumps(value)) - 1)


EXACT: JsonObject = {
    "z": 1,
    "a": 1.0,
    "negative zero": -0.0,
    "beyond 2^53": 2**53 + 1,
    "most": INT_MAX,
    "least": INT_MIN,
    "a float beyond 2^53": 1e300,
    "tiny": 5e-324,
    "text": 'ä€😀\t"\\\x7f',
    "": {"": []},
    "true": True,
    "null": None,
    "deep": nested(MAX_DEPTH - 1),
}


def test_p47_reads_back_equal_type_equal_and_in_order() -> None:
    document = detach(EXACT, max_bytes=MIB)
    for read in (document.value, loads(document.text), json.loads(document.text), parse(document.text)):
        assert exactly(read) == exactly(EXACT)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(INT_MIN, INT_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
)
keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=30)


@given(st.dictionaries(keys, values))
def test_p47_for_every_value_that_is_accepted(value: JsonObject) -> None:
    document = detach(value, max_bytes=MIB)
    assert exactly(document.value) == exactly(value)
    assert exactly(parse(document.text)) == exactly(value)


@given(st.dictionaries(keys, values))
def test_the_copy_is_not_the_callers(value: JsonObject) -> None:
    document = detach(value, max_bytes=MIB)
    before = dumps(document.value)
    value["further"] = 1
    for item in value.values():
        if isinstance(item, dict | list):
            item.clear()
    assert dumps(document.value) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"a":1}x', "not JSON"),
        (b"\xff", "not JSON"),
        ('{"a": NaN}', "not a JSON number"),
        ('{"a": -Infinity}', "not a JSON number"),
        ('{"a": 1e999}', "not a JSON number"),
        ('{"a": 9223372036854775808}', "outside"),
        ('{"a": [-9223372036854775809]}', "outside"),
        ('{"a": ' + "9" * 5000 + "}", "JSON"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 201 + "]" * 201, "deep"),
        ("[" * 1_000_000, "deep"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_p46_input_text_has_the_same_verdict(text: str | bytes, reason: str) -> None:
    """Checked before a parser makes floats of big integers (semantics §2)."""
    with pytest.raises(InvalidJson, match=reason):
        parse(text)


def test_input_keeps_what_is_at_the_limits() -> None:
    assert parse(f"[{INT_MIN}, {INT_MAX}, -0.0, 1.0]") == [INT_MIN, INT_MAX, -0.0, 1.0]


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = {"x": 1}
    verify([shared, shared, {"again": shared}])


def exactly(value: Json) -> object:
    """A form in which 1, 1.0 and true differ, -0.0 and 0.0 too, and the order of keys counts."""
    match value:
        case dict():
            return ("dict", [(key, exactly(item)) for key, item in value.items()])
        case list():
            return ("list", [exactly(item) for item in value])
        case _:
            return (type(value).__name__, repr(value))
