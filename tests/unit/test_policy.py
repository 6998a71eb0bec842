"""RetryPolicy: the literal values of the text, then what holds for every legal policy."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bext_workflow import OnExhausted, RetryPolicy
from bext_workflow.errors import DefinitionError
from bext_workflow.model.json import Json
from bext_workflow.model.policy import DEFAULT_COMPENSATION_RETRIES

BILLION = 10**9

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, BILLION),
    backoff_ms=st.integers(0, 10**12),
    backoff_multiplier=st.floats(1.0, 1e300, allow_nan=False),
    max_backoff_ms=st.integers(0, 10**12),
    jitter=st.floats(0.0, 1.0, allow_nan=False),
)
attempts = st.one_of(st.integers(1, 80), st.integers(1, BILLION))


def delays(policy: RetryPolicy, count: int) -> list[int]:
    return [policy.delay_ms_for_attempt(n) for n in range(1, count + 1)]


def test_the_texts_example_waits_0_200_400_800_1600() -> None:
    policy = RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=5_000)
    assert delays(policy, 5) == [0, 200, 400, 800, 1600]


def test_the_texts_example_is_clamped_after_its_last_attempt_too() -> None:
    policy = RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=5_000)
    assert delays(policy, 9)[5:] == [3200, 5000, 5000, 5000]


def test_the_default_is_the_exponential_policy_of_the_text() -> None:
    assert RetryPolicy() == RetryPolicy(
        max_attempts=3, backoff_ms=1000, backoff_multiplier=2.0, max_backoff_ms=30_000, jitter=0.0
    )
    assert delays(RetryPolicy(), 3) == [0, 1000, 2000]
    assert RetryPolicy().on_exhausted is OnExhausted.COMPENSATE


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetryPolicy(max_attempts=3, backoff_ms=500, backoff_multiplier=2.0, max_backoff_ms=5000), [0, 500, 1000]),
        (RetryPolicy(max_attempts=1, backoff_ms=0, backoff_multiplier=1.0, max_backoff_ms=0), [0]),
        (
            RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=10_000),
            [0, 200, 400, 800, 1600],
        ),
    ],
    ids=["reserve_stock", "charge_card", "send_receipt"],
)
def test_the_checkouts_three_policies(policy: RetryPolicy, expected: list[int]) -> None:
    assert delays(policy, policy.max_attempts) == expected


def test_none_is_one_attempt() -> None:
    assert RetryPolicy.none() == RetryPolicy(max_attempts=1, backoff_ms=0, backoff_multiplier=1.0, max_backoff_ms=0)


def test_undo_is_tried_ten_times() -> None:
    policy = DEFAULT_COMPENSATION_RETRIES
    assert (policy.max_attempts, policy.max_backoff_ms) == (10, 300_000)
    assert delays(policy, 10)[:3] == [0, 1000, 2000]
    assert policy.delay_ms_for_attempt(10) == 256_000


def test_a_fraction_of_a_ms_is_rounded_down() -> None:
    assert delays(RetryPolicy(backoff_ms=1, backoff_multiplier=1.5, max_backoff_ms=100), 5) == [0, 1, 1, 2, 3]


def test_a_limit_of_0_means_no_wait() -> None:
    assert delays(RetryPolicy(backoff_ms=500, max_backoff_ms=0), 4) == [0, 0, 0, 0]


def test_a_multiplier_of_1_waits_the_same() -> None:
    policy = RetryPolicy(backoff_ms=70, backoff_multiplier=1.0, max_backoff_ms=100)
    assert [policy.delay_ms_for_attempt(n) for n in (2, 3, BILLION)] == [70, 70, 70]


@pytest.mark.parametrize("n", [0, -1, -BILLION])
def test_attempts_count_from_1(n: int) -> None:
    with pytest.raises(ValueError, match="attempts count from 1"):
        RetryPolicy().delay_ms_for_attempt(n)


@pytest.mark.parametrize("multiplier", [1.0, 1.0000001, 2.0, 1e300])
def test_attempt_one_billion_has_the_longest_wait(multiplier: float) -> None:
    """No overflow (P19)."""
    policy = RetryPolicy(backoff_ms=1, backoff_multiplier=multiplier, max_backoff_ms=10**12)
    assert policy.delay_ms_for_attempt(BILLION) == (1 if multiplier == 1.0 else 10**12)


@given(policies, attempts, attempts)
def test_waits_are_monotone_whole_and_within_the_limit(policy: RetryPolicy, one: int, other: int) -> None:
    """P19, for every n up to 10^9."""
    sooner, later = sorted((one, other))
    first, second = policy.delay_ms_for_attempt(sooner), policy.delay_ms_for_attempt(later)
    assert 0 <= first <= second <= policy.max_backoff_ms
    assert type(first) is int


@given(policies, st.integers(3, 60))
def test_each_wait_is_the_formulas(policy: RetryPolicy, n: int) -> None:
    """P19, against exact arithmetic."""
    exact = policy.backoff_ms * Fraction(policy.backoff_multiplier) ** (n - 2)
    expected = min(policy.max_backoff_ms, math.floor(exact))
    assert policy.delay_ms_for_attempt(n) == pytest.approx(expected, rel=1e-12, abs=1)


@given(policies, attempts, st.floats(0.0, 1.0, exclude_max=True))
def test_jitter_only_shortens_and_by_no_more_than_its_share(policy: RetryPolicy, n: int, drawn: float) -> None:
    """P19: a wait lies in [d(1-jitter), d]."""
    whole = policy.delay_ms_for_attempt(n)
    assert whole * (1 - policy.jitter) - 1e-3 <= policy.delay_ms(n, drawn) <= whole


def test_jitter_reaches_both_ends_of_its_range() -> None:
    policy = RetryPolicy(backoff_ms=1000, jitter=0.2)
    assert policy.delay_ms(2, 0.0) == 1000
    assert policy.delay_ms(2, 0.5) == 900
    assert policy.delay_ms(2, math.nextafter(1.0, 0.0)) in (800, 801)


@pytest.mark.parametrize(
    "numbers",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"backoff_ms": -1},
        {"max_backoff_ms": -1},
        {"max_elapsed_ms": -1},
        {"backoff_multiplier": 0.99},
        {"backoff_multiplier": -2.0},
        {"backoff_multiplier": math.nan},
        {"backoff_multiplier": math.inf},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
    ],
    ids=str,
)
def test_numbers_that_make_no_policy_are_refused(numbers: dict[str, Json]) -> None:
    with pytest.raises(DefinitionError) as refused:
        RetryPolicy(**numbers)
    assert next(iter(numbers)) in refused.value.message
    assert refused.value.mend
