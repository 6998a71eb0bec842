"""The checkout is proven, and the proof rests on each of its undos."""

from __future__ import annotations

import pytest

from bext_workflow.testing import prove
from bext_workflow_pg.checkout import CheckoutPlugin

UNDONE = ["charge_card", "reserve_stock"]


@pytest.mark.tier("ci")
def test_the_checkout_leaves_nothing_behind() -> None:
    proof = prove(CheckoutPlugin(), budget=50)
    print(proof)
    assert proof.holds, proof
    assert [path.name for path in proof.paths] == ["order", "flaky", "sold-out", "declined", "bounced"]
    for explored in (proof.steps, proof.undos):
        assert explored.runs == explored.sites * explored.faults
    assert proof.coverage.undone == ["charge_card: charge", "reserve_stock: reserve"]
    assert (proof.coverage.percent, proof.coverage.stays) == (100, ["send"])


@pytest.mark.tier("ci")
@pytest.mark.parametrize("step", UNDONE)
def test_it_rests_on_each_undo(step: str) -> None:
    proof = prove(CheckoutPlugin(), without_undo=step)
    assert ("left-behind", step) in {(one.promise, one.where) for one in proof.broken}
    assert step not in {effect.partition(":")[0] for effect in proof.coverage.undone}
    assert proof.coverage.percent == 50


@pytest.mark.parametrize("step", UNDONE)
def test_one_case_shows_it(step: str) -> None:
    case = "order@send_receipt=fail"
    assert prove(CheckoutPlugin(), replay=case).holds
    assert [one.where for one in prove(CheckoutPlugin(), replay=case, without_undo=step).broken] == [step]
