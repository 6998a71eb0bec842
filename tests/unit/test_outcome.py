"""Outcomes construct and match in one manner, and every public name imports without an extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bext_workflow
from bext_workflow import NotDone, StepOutcome, Unknown
from bext_workflow.model.json import Json


def described(outcome: StepOutcome) -> str:
    match outcome:
        case StepOutcome.Continue(context_updates=updates, next=None):
            return f"continue {updates}"
        case StepOutcome.Continue(next=chosen):
            return f"continue at {chosen}"
        case StepOutcome.Retry(after_ms=after):
            return f"retry after {after}"
        case StepOutcome.Fail(reason=reason, compensate=compensate):
            return f"fail {reason} {compensate}"
        case StepOutcome.Wait(signal=signal):
            return f"wait for {signal}"
        case _:
            return "something else"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (StepOutcome.Continue({"reservation_id": "r-1"}), "continue {'reservation_id': 'r-1'}"),
        (StepOutcome.Continue(), "continue {}"),
        (StepOutcome.Continue(next="notify"), "continue at notify"),
        (StepOutcome.Retry(after_ms=500), "retry after 500"),
        (StepOutcome.Retry(), "retry after None"),
        (StepOutcome.Fail("card declined", compensate=True), "fail card declined True"),
        (StepOutcome.Wait(signal="approved"), "wait for approved"),
    ],
    ids=repr,
)
def test_matching(outcome: StepOutcome, expected: str) -> None:
    assert described(outcome) == expected


def test_outcomes_are_frozen_and_compare_by_value() -> None:
    outcome, field = StepOutcome.Fail("no", compensate=False), "reason"
    assert outcome == StepOutcome.Fail("no", compensate=False)
    with pytest.raises(AttributeError):
        setattr(outcome, field, "yes")


def test_fail_must_say_whether_to_compensate() -> None:
    given: dict[str, Json] = {"reason": "no"}
    with pytest.raises(TypeError, match="compensate"):
        StepOutcome.Fail(**given)


def test_forms_are_shown_by_the_name_that_people_write() -> None:
    assert repr(StepOutcome.Fail("no", compensate=True)) == "Fail(reason='no', compensate=True)"
    assert StepOutcome.Continue.__qualname__ == "StepOutcome.Continue"


def test_verdicts_of_verify_step_are_values() -> None:
    assert NotDone() == NotDone()
    assert Unknown() == Unknown()


@pytest.mark.parametrize("name", bext_workflow.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert name in dir(bext_workflow)
    assert callable(getattr(bext_workflow, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    name = "nothing"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(bext_workflow, name)


def test_importing_the_package_loads_none_of_it() -> None:
    """`bext_workflow/__init__` stays lazy (PEP 562)."""
    code = "import sys, bext_workflow; print(sorted(name for name in sys.modules if name.startswith('bext_workflow')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['bext_workflow']"
