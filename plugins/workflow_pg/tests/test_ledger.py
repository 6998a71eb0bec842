"""The ledger's promises, over each database: once per key, nothing after its undo, all or nothing, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing

import msgspec
import pytest

from bext_workflow_pg.books import Entry
from bext_workflow_pg.database import open_database
from bext_workflow_pg.errors import Refused, Transient, Unreachable
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.sqlite_ledger import SqliteLedger
from plugins.workflow_pg.tests.ledgers import opened
from plugins.workflow_pg.tests.snapshots import ORDER

Effect = Callable[[Ledger, str], Awaitable[Entry]]

EFFECTS: dict[str, Effect] = {
    "reserve": lambda ledger, key: ledger.reserve(key, ORDER),
    "charge": lambda ledger, key: ledger.charge(key, ORDER),
    "send": lambda ledger, key: ledger.send(key, ORDER),
    "release": lambda ledger, key: ledger.release(key, of="reserved"),
    "refund": lambda ledger, key: ledger.refund(key, of="charged"),
}
each_effect = pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS.keys())


@pytest.fixture
async def ledger(place: str) -> AsyncIterator[Ledger]:
    """A ledger with one entry of each kind that can be used up: something to release, to refund, and a sent mail."""
    async with opened(place) as ledger:
        await ledger.reserve("reserved", ORDER)
        await ledger.charge("charged", ORDER)
        await ledger.send("sent", ORDER)
        yield ledger


@each_effect
async def test_the_same_key_returns_the_first_result_and_counts_the_call(ledger: Ledger, effect: Effect) -> None:
    first = await effect(ledger, "key")
    stock = (await ledger.books()).stock
    again = await effect(ledger, "key")

    assert again == msgspec.structs.replace(first, calls=2)
    assert (await ledger.books()).stock == stock
    assert await ledger.calls("key") == 2


@each_effect
async def test_another_key_is_another_effect(ledger: Ledger, effect: Effect) -> None:
    first = await effect(ledger, "key")

    if first.undoes is None:
        assert (await effect(ledger, "another")).id != first.id
    else:
        with pytest.raises(Refused, match=f"^{first.undoes} has been undone by key$"):
            await effect(ledger, "another")


@each_effect
async def test_a_key_of_another_call_is_refused_and_changes_nothing(ledger: Ledger, effect: Effect) -> None:
    taken = "sent" if effect is not EFFECTS["send"] else "charged"
    before = await ledger.books()

    with pytest.raises(Refused, match=f"^{taken} is the key of another call"):
        await effect(ledger, taken)

    assert await ledger.books() == before


@pytest.mark.parametrize("name", ["reserve", "charge"])
async def test_nothing_arrives_after_its_undo(ledger: Ledger, name: str) -> None:
    undo = ledger.release if name == "reserve" else ledger.refund
    await undo("key:compensate", of="key")
    before = await ledger.books()

    with pytest.raises(Refused, match=r"^key has been undone by key:compensate$"):
        await EFFECTS[name](ledger, "key")

    assert await ledger.books() == before


async def test_what_was_undone_is_not_reported_as_done(ledger: Ledger) -> None:
    """A late repeat of a charge that was refunded must not look like a charge."""
    await ledger.charge("key", ORDER)
    await ledger.refund("key:compensate", of="key")

    with pytest.raises(Refused, match=r"^key has been undone by key:compensate$"):
        await ledger.charge("key", ORDER)

    assert await ledger.calls("key") == 1


async def test_an_undo_that_found_nothing_stays_so(ledger: Ledger) -> None:
    first = await ledger.refund("key:compensate", of="key")
    again = await ledger.refund("key:compensate", of="key")

    assert (first.amount, again.amount) == (0, 0)
    assert again.id == first.id


@pytest.mark.parametrize("effect", ["reserve", "charge"])
async def test_an_unknown_sku_is_refused(ledger: Ledger, effect: str) -> None:
    order = msgspec.structs.replace(ORDER, sku="unknown")
    with pytest.raises(Refused, match=r"^no such SKU: unknown$"):
        await getattr(ledger, effect)("key", order)


async def test_the_last_piece_can_be_reserved_and_not_one_more(ledger: Ledger) -> None:
    one, rest = (msgspec.structs.replace(ORDER, sku="gadget", quantity=count) for count in (1, 999_999))
    await ledger.reserve("rest", rest)
    await ledger.reserve("last", one)

    with pytest.raises(Refused, match=r"^1 of gadget ordered, 0 in stock$"):
        await ledger.reserve("one more", one)

    await ledger.release("rest:compensate", of="rest")
    await ledger.reserve("one more", one)


async def test_an_id_follows_from_kind_and_key(place: str) -> None:
    async with opened(":memory:") as one, opened(place) as other:
        charged = await one.charge("key", ORDER)
        assert charged.id.startswith("ch_")
        assert (await other.charge("key", ORDER)).id == charged.id


async def test_calls_of_a_key_that_was_never_used(ledger: Ledger) -> None:
    assert await ledger.calls("key") == 0


async def test_one_key_at_once_acts_once(ledger: Ledger) -> None:
    entries = await asyncio.gather(*(ledger.reserve("key", ORDER) for _ in range(16)))

    assert len({entry.id for entry in entries}) == 1
    assert sorted(entry.calls for entry in entries) == list(range(1, 17))
    assert await ledger.calls("key") == 16


async def test_an_effect_and_its_undo_at_once(ledger: Ledger) -> None:
    """Either the undo undoes it or it is refused; never both at a time, and never neither."""
    calls = [
        call for n in range(20) for call in (ledger.charge(f"{n}", ORDER), ledger.refund(f"{n}:compensate", of=f"{n}"))
    ]
    ends = await asyncio.gather(*calls, return_exceptions=True)

    for charged, refunded in zip(ends[::2], ends[1::2], strict=True):
        assert isinstance(refunded, Entry)
        assert isinstance(charged, Refused) if refunded.amount == 0 else isinstance(charged, Entry)


async def test_the_last_piece_at_once_is_one_orders(ledger: Ledger) -> None:
    rest, one = (msgspec.structs.replace(ORDER, sku="gadget", quantity=count) for count in (999_999, 1))
    await ledger.reserve("rest", rest)

    ends = await asyncio.gather(*(ledger.reserve(f"{n}", one) for n in range(8)), return_exceptions=True)

    refused = [str(end) for end in ends if isinstance(end, Refused)]
    assert refused == ["1 of gadget ordered, 0 in stock"] * 7


async def test_many_keys_over_many_connections_add_up(place: str, location: str) -> None:
    """Each ledger has connections of its own, as processes would."""
    async with AsyncExitStack() as closed:
        where = location if place == ":memory:" else place
        ledgers = await asyncio.gather(*(closed.enter_async_context(opened(where)) for _ in range(4)))

        async def checkout(n: int) -> None:
            ledger = ledgers[n % 4]
            order = msgspec.structs.replace(ORDER, order_id=f"o-{n}")
            await ledger.reserve(f"{n}:reserve", order)
            await ledger.charge(f"{n}:charge", order)
            if n % 3:
                await ledger.refund(f"{n}:refund", of=f"{n}:charge")
                await ledger.release(f"{n}:release", of=f"{n}:reserve")
            else:
                await ledger.send(f"{n}:send", order)

        await asyncio.gather(*(checkout(n) for n in range(30)))

        books = await ledgers[0].books()
        assert books.totals() == {"reserved": 10, "charged": 10, "sent": 10, "undone": 40}
        assert {entry.calls for entry in books.entries} == {1}
        assert books.faults() == ()


@each_effect
async def test_a_full_disk_breaks_off_and_nothing_is_done(effect: Effect) -> None:
    with closing(open_database(":memory:")) as db:
        ledger = SqliteLedger(db)
        before = await ledger.books()
        db.execute("PRAGMA max_page_count = 1")  # No page more than there are.

        with pytest.raises(Unreachable, match=r"^the ledger broke off: database or disk is full$"):
            await effect(ledger, "a key that needs more pages" * 1000)
        assert await ledger.books() == before

        db.execute("PRAGMA max_page_count = 1000000")
        assert (await effect(ledger, "key")).calls == 1


@each_effect
async def test_a_locked_ledger_is_transient(location: str, effect: Effect) -> None:
    with closing(open_database(location)) as other, closing(open_database(location)) as db:
        db.execute("PRAGMA busy_timeout = 0")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Transient, match=r"^the ledger does not answer: database is locked$"):
            await effect(SqliteLedger(db), "key")
