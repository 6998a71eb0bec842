"""A store that tells hosts what others have written (semantics §11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bext_workflow.ports.store import Store
from bext_workflow.testing.contract.base import StoreCase, committed, creation, following, host, judged, parked

PATIENCE_S = 10


class Ear:
    """What a store tells."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[str | None] = asyncio.Queue()

    def hear(self, host_id: str | None) -> None:
        self._heard.put_nowait(host_id)

    async def next(self) -> str | None:
        async with asyncio.timeout(PATIENCE_S):
            return await self._heard.get()


@asynccontextmanager
async def listening(store: Store) -> AsyncIterator[Ear]:
    ear = Ear()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(store.listen(ear.hear))
        assert await ear.next() is None, "what came before is to be looked for"
        yield ear
        task.cancel()


class WakeupsContract(StoreCase):
    async def test_act_is_told_to_the_host_that_drives_the_run(self, store: Store, other: Store) -> None:
        await store.join(host("host-a"))
        driven, waiting = await committed(store, creation(1), creation(2, owner=None, wake_at=None))

        async with listening(store) as ear:
            await other.post(driven.run_id, judged(), at=1_100)
            assert await ear.next() == "host-a"
            await other.post(waiting.run_id, judged(), at=1_100)
            assert await ear.next() is None

    async def test_run_that_is_nobodys_is_told_of(self, store: Store, other: Store) -> None:
        """P37: after the first word of a store that is listened to, which tells to look, nothing is missed."""
        async with listening(store) as ear:
            await committed(other, creation(1, owner=None))
            assert await ear.next() is None
            (run,) = await committed(other, creation(2))
            await committed(other, following(run, index=parked(1_000)))
            assert await ear.next() is None
