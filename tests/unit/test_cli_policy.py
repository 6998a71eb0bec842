"""How the table of a workflow tells what its steps are."""

from __future__ import annotations

import pytest

from bext_workflow.faces.cli.cells import duration
from bext_workflow.faces.cli.policy import policy_of
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.wait import WaitDefinition

USUAL = "undo: 10 attempts, 1 s × 2, at most 5 min"


def told(**fields: Json) -> str:
    """What is said before the end that most steps have in common."""
    return policy_of(StepDefinition(name="pack", **fields)).removesuffix(f"; {USUAL}")


def test_defaults_are_said_too() -> None:
    assert policy_of(StepDefinition(name="pack")) == f"3 attempts, 1 s × 2, at most 30 s; time-out 1 min; {USUAL}"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (RetryPolicy.none(), "1 attempt"),
        (RetryPolicy(max_attempts=1), "1 attempt"),
        (RetryPolicy(backoff_ms=250, backoff_multiplier=1.5), "3 attempts, 250 ms × 1.5, at most 30 s"),
        (RetryPolicy(backoff_multiplier=1), "3 attempts, 1 s each"),
        (RetryPolicy(backoff_multiplier=1, max_backoff_ms=10), "3 attempts, 1 s each, at most 10 ms"),
        (RetryPolicy(backoff_ms=0), "3 attempts, no wait"),
        (RetryPolicy(max_backoff_ms=0), "3 attempts, no wait"),
        (RetryPolicy(jitter=0.25), "3 attempts, 1 s × 2, at most 30 s, up to 25% shorter"),
        (
            RetryPolicy(backoff_multiplier=1, max_elapsed_ms=60_000),
            "3 attempts, 1 s each, none later than 1 min",
        ),
        (RetryPolicy(max_attempts=1, on_exhausted=OnExhausted.FAIL), "1 attempt, then it fails without undo"),
        (RetryPolicy(max_attempts=1, on_exhausted=OnExhausted.INCIDENT), "1 attempt, then a person decides"),
    ],
)
def test_retries_in_words(policy: RetryPolicy, words: str) -> None:
    assert told(retries=policy) == f"{words}; time-out 1 min"


def test_what_a_step_states_is_said() -> None:
    assert told(
        retries=RetryPolicy.none(),
        retry_on=("OSError",),
        timeout_ms=0,
        pivot=True,
        compensate_on_failure=True,
        undo_idempotent=False,
        next="end",
        branches=("ship", "pick"),
        max_visits=3,
    ) == (
        "1 attempt; retried on OSError; no time-out; pivot; its own undo runs if it fails; undo not idempotent; "
        "next end; may go to ship, pick; at most 3 visits"
    )
    assert told(idempotent=False, retries=RetryPolicy.none()) == "1 attempt; time-out 1 min; not idempotent"
    assert told(retries=RetryPolicy.none(), heartbeat_ms=5000) == "1 attempt; time-out 1 min; a heartbeat holds for 5 s"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (StepDefinition(name="a", sleep_ms=90_000), "waits 1 min 30 s"),
        (StepDefinition(name="a", wait=WaitDefinition(signal="paid")), "waits for the signal paid"),
        (
            StepDefinition(name="a", wait=WaitDefinition(signal="paid", timeout_ms=3_600_000)),
            "waits for the signal paid, at most 1 h, then it fails",
        ),
        (
            StepDefinition(name="a", wait=WaitDefinition(signal="paid", timeout_ms=500, on_timeout="late")),
            "waits for the signal paid, at most 500 ms, then it goes to late",
        ),
    ],
)
def test_what_the_host_does_itself(step: StepDefinition, words: str) -> None:
    """No attempts, and nothing to undo."""
    assert policy_of(step) == words


@pytest.mark.parametrize(
    ("next_", "join", "words"),
    [
        (("a", "b"), JoinDefinition(at="c"), "forks into a, b; joins all of them at c"),
        (("a", "b"), JoinDefinition(at="c", need="any"), "forks into a, b; joins the first of them at c"),
        (("a", "b"), JoinDefinition(at="c", need=2), "forks into a, b; joins 2 of them at c"),
    ],
)
def test_forks(next_: tuple[str, ...], join: JoinDefinition, words: str) -> None:
    told_of = policy_of(StepDefinition(name="pack", next=next_, join=join))
    assert told_of == f"3 attempts, 1 s × 2, at most 30 s; time-out 1 min; {words}; {USUAL}"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 s"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_500, "1 s 500 ms"),
        (90_000, "1 min 30 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
        (86_400_001, "1 d 1 ms"),
    ],
)
def test_durations_in_words(ms: int, words: str) -> None:
    assert duration(ms) == words
