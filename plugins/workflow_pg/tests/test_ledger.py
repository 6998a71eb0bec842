"""The ledger's promises: once per key, nothing after its undo, all or nothing, from many threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Barrier
from typing import TypeVar

import msgspec
import pytest

from bext_workflow_pg.books import Entry
from bext_workflow_pg.database import open_database
from bext_workflow_pg.errors import Refused, Transient, Unreachable
from bext_workflow_pg.ledger import Ledger
from plugins.workflow_pg.tests.snapshots import ORDER

T = TypeVar("T")
Effect = Callable[[Ledger, str], Entry]

EFFECTS: dict[str, Effect] = {
    "reserve": lambda ledger, key: ledger.reserve(key, ORDER),
    "charge": lambda ledger, key: ledger.charge(key, ORDER),
    "send": lambda ledger, key: ledger.send(key, ORDER),
    "release": lambda ledger, key: ledger.release(key, of="reserved"),
    "refund": lambda ledger, key: ledger.refund(key, of="charged"),
}
each_effect = pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS.keys())


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A ledger with one entry of each kind that can be used up: something to release, to refund, and a sent mail."""
    with closing(Ledger.open(":memory:")) as ledger:
        ledger.reserve("reserved", ORDER)
        ledger.charge("charged", ORDER)
        ledger.send("sent", ORDER)
        yield ledger


@each_effect
def test_the_same_key_returns_the_first_result_and_counts_the_call(ledger: Ledger, effect: Effect) -> None:
    first = effect(ledger, "key")
    stock = ledger.books().stock
    again = effect(ledger, "key")

    assert again == msgspec.structs.replace(first, calls=2)
    assert ledger.books().stock == stock
    assert ledger.calls("key") == 2


@each_effect
def test_another_key_is_another_effect(ledger: Ledger, effect: Effect) -> None:
    first = effect(ledger, "key")

    if first.undoes is None:
        assert effect(ledger, "another").id != first.id
    else:
        with pytest.raises(Refused, match=f"^{first.undoes} has been undone by key$"):
            effect(ledger, "another")


@each_effect
def test_a_key_of_another_call_is_refused_and_changes_nothing(ledger: Ledger, effect: Effect) -> None:
    taken = "sent" if effect is not EFFECTS["send"] else "charged"
    before = ledger.books()

    with pytest.raises(Refused, match=f"^{taken} is the key of another call"):
        effect(ledger, taken)

    assert ledger.books() == before


@pytest.mark.parametrize("name", ["reserve", "charge"])
def test_nothing_arrives_after_its_undo(ledger: Ledger, name: str) -> None:
    undo = ledger.release if name == "reserve" else ledger.refund
    undo("key:compensate", of="key")
    before = ledger.books()

    with pytest.raises(Refused, match=r"^key has been undone by key:compensate$"):
        EFFECTS[name](ledger, "key")

    assert ledger.books() == before


def test_what_was_undone_is_not_reported_as_done(ledger: Ledger) -> None:
    """A late repeat of a charge that was refunded must not look like a charge."""
    ledger.charge("key", ORDER)
    ledger.refund("key:compensate", of="key")

    with pytest.raises(Refused, match=r"^key has been undone by key:compensate$"):
        ledger.charge("key", ORDER)

    assert ledger.calls("key") == 1


def test_an_undo_that_found_nothing_stays_so(ledger: Ledger) -> None:
    first = ledger.refund("key:compensate", of="key")
    again = ledger.refund("key:compensate", of="key")

    assert (first.amount, again.amount) == (0, 0)
    assert again.id == first.id


@pytest.mark.parametrize("effect", ["reserve", "charge"])
def test_an_unknown_sku_is_refused(ledger: Ledger, effect: str) -> None:
    order = msgspec.structs.replace(ORDER, sku="unknown")
    with pytest.raises(Refused, match=r"^no such SKU: unknown$"):
        getattr(ledger, effect)("key", order)


def test_the_last_piece_can_be_reserved_and_not_one_more(ledger: Ledger) -> None:
    one, rest = (msgspec.structs.replace(ORDER, sku="gadget", quantity=count) for count in (1, 999_999))
    ledger.reserve("rest", rest)
    ledger.reserve("last", one)

    with pytest.raises(Refused, match=r"^1 of gadget ordered, 0 in stock$"):
        ledger.reserve("one more", one)

    ledger.release("rest:compensate", of="rest")
    ledger.reserve("one more", one)


def test_an_id_follows_from_kind_and_key() -> None:
    with closing(Ledger.open(":memory:")) as one, closing(Ledger.open(":memory:")) as other:
        assert one.charge("key", ORDER).id == other.charge("key", ORDER).id
        assert one.charge("key", ORDER).id.startswith("ch_")


def test_calls_of_a_key_that_was_never_used(ledger: Ledger) -> None:
    assert ledger.calls("key") == 0


def test_one_key_from_many_threads_acts_once(ledger: Ledger) -> None:
    entries = at_once(16, lambda _: ledger.reserve("key", ORDER))

    assert len({entry.id for entry in entries}) == 1
    assert sorted(entry.calls for entry in entries) == list(range(1, 17))
    assert ledger.calls("key") == 16


def test_many_keys_from_many_threads_and_connections_add_up(location: str) -> None:
    """Each thread has a connection of its own, as processes would."""
    with ExitStack() as closed:
        ledgers = [closed.enter_context(closing(Ledger.open(location))) for _ in range(8)]

        def checkout(n: int) -> None:
            ledger = ledgers[n % 8]
            order = msgspec.structs.replace(ORDER, order_id=f"o-{n}")
            ledger.reserve(f"{n}:reserve", order)
            ledger.charge(f"{n}:charge", order)
            if n % 2:
                ledger.refund(f"{n}:refund", of=f"{n}:charge")
                ledger.release(f"{n}:release", of=f"{n}:reserve")
            else:
                ledger.send(f"{n}:send", order)

        at_once(32, checkout)

        books = ledgers[0].books()
        assert books.totals() == {"reserved": 16, "charged": 16, "sent": 16, "undone": 32}
        assert {entry.calls for entry in books.entries} == {1}
        assert books.faults() == ()


@each_effect
def test_a_full_disk_breaks_off_and_nothing_is_done(effect: Effect) -> None:
    with closing(open_database(":memory:")) as db:
        ledger = Ledger(db)
        before = ledger.books()
        db.execute("PRAGMA max_page_count = 1")  # No page more than there are.

        with pytest.raises(Unreachable, match=r"^the ledger broke off: database or disk is full$"):
            effect(ledger, "a key that needs more pages" * 1000)
        assert ledger.books() == before

        db.execute("PRAGMA max_page_count = 1000000")
        assert effect(ledger, "key").calls == 1


@each_effect
def test_a_locked_ledger_is_transient(location: str, effect: Effect) -> None:
    with closing(open_database(location)) as other, closing(open_database(location)) as db:
        db.execute("PRAGMA busy_timeout = 0")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Transient, match=r"^the ledger does not answer: database is locked$"):
            effect(Ledger(db), "key")


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """The results of calls from so many threads that start together."""
    barrier = Barrier(count)

    def wait_and_call(n: int) -> T:
        barrier.wait(timeout=30)
        return call(n)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(wait_and_call, range(count)))
