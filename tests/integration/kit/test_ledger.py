"""The ledger of effects that fakes of services write: as strict as a good service is."""

from __future__ import annotations

import threading

import pytest

from bext_workflow import EffectLedger, WorkflowError


def test_a_key_acts_once() -> None:
    ledger = EffectLedger()
    first = ledger.do("charge", "r:charge", cents=100)

    assert ledger.do("charge", "r:charge", cents=100) == first
    assert ledger.do("charge", "r:charge#2") != first
    assert [(effect.what, effect.key, effect.details) for effect in ledger.effects] == [
        ("charge", "r:charge", {"cents": 100}),
        ("charge", "r:charge#2", {}),
    ]


def test_keys_are_of_one_service() -> None:
    ledger = EffectLedger()
    assert ledger.do("charge", "r:pay") != ledger.do("mail", "r:pay")


@pytest.mark.parametrize("of", [None, "r:charge", "charge-1"])
def test_what_is_done_is_undone_by_the_undos_key_the_steps_or_the_id(of: str | None) -> None:
    ledger = EffectLedger()
    ledger.do("charge", "r:charge")
    assert ledger.undo("charge", "r:charge:compensate", of=of) == ledger.undo("charge", "r:charge:compensate", of=of)

    balance = ledger.balance()
    assert [effect.key for effect in balance.undone] == ["r:charge"]
    assert (balance.standing, balance.undone_twice, balance.nothing_undone) == ((), (), ())


def test_an_undo_with_another_key_is_another_undo() -> None:
    ledger = EffectLedger()
    ledger.do("charge", "r:charge")
    ledger.undo("charge", "one", of="r:charge")
    ledger.undo("charge", "two", of="r:charge")

    assert [effect.key for effect in ledger.balance().undone_twice] == ["r:charge"]


def test_what_was_never_done_is_not_done_after_its_undo() -> None:
    """A payment cannot arrive after its refund."""
    ledger = EffectLedger()
    ledger.undo("charge", "r:charge:compensate")
    with pytest.raises(WorkflowError, match="charge r:charge has been undone"):
        ledger.do("charge", "r:charge")

    assert [effect.undoes for effect in ledger.balance().nothing_undone] == ["r:charge"]


def test_what_was_undone_by_its_id_is_not_done_again() -> None:
    ledger = EffectLedger()
    ledger.undo("charge", "r:charge:compensate", of=ledger.do("charge", "r:charge"))
    with pytest.raises(WorkflowError):
        ledger.do("charge", "r:charge")


def test_many_threads_and_one_key() -> None:
    ledger = EffectLedger()
    threads = [threading.Thread(target=ledger.do, args=("charge", "r:charge")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(ledger.balance().standing) == 1
