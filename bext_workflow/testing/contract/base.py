"""What a store's suite hands to the contract, and how the contract's tests write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

import pytest

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import (
    Act,
    Append,
    Committed,
    Create,
    HostRow,
    Index,
    Judge,
    Member,
    Result,
    RunRow,
    Store,
)

SERVED = (("checkout", 1),)
CREATED_AT = 1_000
STARTED = ("run_created", b'{"context":{"order_id":"o-1"}}')
STEPPED = ("step_completed", b'{"step":"reserve_stock"}')
BAD_TEXT = b'{"text":"\xed\xa0\x80"}'
"""A lone surrogate in UTF-8: no store takes it."""

TRICKY_TEXT = '{"é":"𝄞 \\u0000 \\ud83d","z":-0.0,"a":9007199254740993,"b":1.0,"c":1,"z":"twice","n":[ ]}'.encode()
"""Text that a parser between here and there would change (P47)."""


class StoreCase(ABC):
    """The store under test."""

    @abstractmethod
    async def open_store(self) -> Store:
        """An open store on this test's own, at first empty, database; each call as another process would open it.

        A store that lives in one process only may hand out the same one again.
        """

    async def crash(self, store: Store) -> Store:
        """The process of `store` dies, and all its hosts. Returns a store on the same database that knows of it."""
        await store.close()
        return await self.open_store()

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = await self.open_store()
        yield store
        await store.close()

    @pytest.fixture
    async def other(self, store: Store) -> AsyncIterator[Store]:
        """The same database as another process sees it."""
        del store
        other = await self.open_store()
        yield other
        await other.close()


def host(host_id: str = "host-a") -> HostRow:
    served = (("checkout", 1, "digest-1"),)
    return HostRow(host_id=host_id, pid=4711, hostname="example", started_at=CREATED_AT, served=served)


def run_id(number: int) -> str:
    """Ids in the order of their numbers, as UUIDv7 are in the order of time."""
    return f"01900000-0000-7000-8000-{number:012}"


def creation(number: int = 1, *, owner: str | None = "host-a", wake_at: int | None = CREATED_AT) -> Create:
    """A new run, driven at once by `owner`, or due at `wake_at`."""
    return Create(
        run_id=run_id(number),
        workflow="checkout",
        version=1,
        digest="digest-1",
        at=CREATED_AT,
        events=(STARTED,),
        index=Index(status=WorkflowStatus.RUNNING, step="reserve_stock", wake_at=wake_at, started_at=CREATED_AT),
        owner=owner,
    )


def following(run: RunRow, *events: tuple[str, bytes], index: Index | None = None) -> Append:
    """What the owner of the run, as it stands, appends next."""
    now = run.index
    return Append(
        rid=run.rid,
        fence=run.fence,
        seq=run.seq,
        inbox=run.inbox,
        at=run.updated_at + 10,
        events=events or (STEPPED,),
        index=index or now,
        previous=now,
    )


def ended(at: int = 2_000, status: WorkflowStatus = WorkflowStatus.COMPLETED) -> Index:
    return Index(status=status, step=None, wake_at=None, started_at=CREATED_AT, ended_at=at, release=True)


def parked(wake_at: int | None, status: WorkflowStatus = WorkflowStatus.RUNNING) -> Index:
    return Index(status=status, step="reserve_stock", wake_at=wake_at, started_at=CREATED_AT, release=True)


CANCELLED = AuditEntry(name="run.cancel", by="ada", reason="ordered twice", data=b'{"compensate":true}')


def judged(act: Act | None = None) -> Judge:
    """A judge that finds nothing against it."""
    found = act or Act(kind="cancel", by="ada", data=b'{"compensate":true}', audit=CANCELLED)
    return lambda _: found


async def written(store: Store, batch: Sequence[Member]) -> list[Result]:
    return list(await store.write(batch))


async def committed(store: Store, *members: Member) -> list[RunRow]:
    """Writes the members, which must all hold; returns the runs' rows afterwards."""
    results = await written(store, members)
    rids = [result.rid for result in results if isinstance(result, Committed)]
    assert len(rids) == len(members), results
    return [await row(store, rid) for rid in rids]


async def started(store: Store, number: int = 1, *, owner: str | None = "host-a") -> RunRow:
    (run,) = await committed(store, creation(number, owner=owner))
    return run


async def row(store: Store, rid: int) -> RunRow:
    return (await store.load(rid)).run
