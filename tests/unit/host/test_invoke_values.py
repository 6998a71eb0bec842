"""Updates that JSON cannot carry are refused at the boundary, and what it can is carried as it is (P46, P47)."""

from __future__ import annotations

from functools import partial

import pytest

from bext_workflow.core.input import Continued, Lost
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from tests.unit.host.calling import MAX_BYTES, Shaped, Stage


def cyclic() -> Json:
    value: Json = {}
    value["self"] = value
    return value


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


ILLEGAL: list[tuple[Json, str]] = [
    (float("nan"), "$.order.total: nan"),
    (float("inf"), "$.order.total: inf"),
    (float("-inf"), "$.order.total: -inf"),
    (b"bytes", "$.order.total: bytes"),
    ((1, 2), "$.order.total: a tuple"),
    ({1, 2}, "$.order.total: set"),
    ({1: "a"}, "$.order.total: the key 1 is int"),
    (cyclic(), "$.order.total.self: a cycle"),
    ("\ud800", "$.order.total: the text holds a lone surrogate"),
    ("a\0b", "$.order.total: the text holds a NUL"),
    ({"a\0": 1}, "$.order.total: in a key"),
    (2**63, "$.order.total: the integer 9223372036854775808 is outside"),
    (-(2**63) - 1, "$.order.total: the integer -9223372036854775809 is outside"),
    (10**5000, "$.order.total: the integer of 16610 bits is outside"),
    (deep(201), "nested more than 200 deep"),
    ("x" * MAX_BYTES, "over the limit of 1000"),
    (object(), "$.order.total: object is not a JSON type"),
    (lambda: 1, "$.order.total: function is not a JSON type"),
]


@pytest.mark.parametrize(("value", "reason"), ILLEGAL, ids=[reason for _, reason in ILLEGAL])
async def test_updates_that_json_cannot_carry_are_refused_with_their_path(
    shaped: Shaped, value: Json, reason: str
) -> None:
    """P46"""
    end = await Stage().step(shaped(lambda: StepOutcome.Continue({"order": {"total": value}})))
    assert isinstance(end, Lost)
    assert end.reason.startswith("plugin 'shop', workflow 'order', step 'pack': refused: ")
    assert reason in end.reason


async def test_undo_data_that_json_cannot_carry_is_refused(shaped: Shaped) -> None:
    """P46"""
    for value, reason in ((float("nan"), "$.undo_data: nan"), ("x" * 70_000, "over the limit of 65536")):
        end = await Stage().step(shaped(partial(StepOutcome.Continue, undo_data=value)))
        assert isinstance(end, Lost)
        assert reason in end.reason


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), -0.0, 2**53 + 1, 1.0, deep(198), "𝄞é", {}, [], {"": ""}])
async def test_what_json_can_carry_is_carried_as_it_is(shaped: Shaped, value: Json) -> None:
    """P47"""
    end = await Stage().step(shaped(lambda: StepOutcome.Continue({"v": value})))
    assert isinstance(end, Continued)
    assert repr(end.updates.value) == repr({"v": value})
