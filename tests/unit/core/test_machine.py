"""Random histories of one run against a naive model (P1, P4, P8–P13, P15, P16, P18, P20, P26–P28, P33)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.core.machine import RunMachine


def run(histories: int) -> None:
    run_state_machine_as_test(
        RunMachine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=50,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def test_a_hundred_histories_agree_with_the_model() -> None:
    run(100)


@pytest.mark.tier("ci")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(4))
def test_a_thousand_histories_agree_with_the_model(part: int) -> None:
    run(250)


@pytest.mark.tier("long")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_histories_agree_with_the_model(part: int) -> None:
    run(5_000)
