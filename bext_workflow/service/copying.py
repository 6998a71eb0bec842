"""A store moves: all that it keeps goes over to another one, while nobody drives on either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

from bext_workflow.errors import Conflict, UsageError
from bext_workflow.ports.copying import KEPT, Copyable, Page
from bext_workflow.ports.store import Store


async def copy_store(source: Store, target: Store) -> Mapping[str, int]:
    """How many rows of each table went over; both stores are open. All of it is there at once, or nothing is.

    Raises `Conflict` while a host lives on either side, or if the target holds something, and `UsageError` for a store
    that cannot be copied.
    """
    if not isinstance(source, Copyable) or not isinstance(target, Copyable):
        raise UsageError("one of the two stores cannot be copied", mend="copy between SQLite and PostgreSQL")
    for store in (source, target):
        await _refuse_hosts(store)
    counted = Counter(dict.fromkeys(KEPT, 0))

    async def counting(pages: AsyncIterator[Page]) -> AsyncGenerator[Page, None]:
        async for page in pages:
            counted[page.table] += len(page.rows)
            yield page
        # What a host has done meanwhile is not in it, and would be done again over there.
        await _refuse_hosts(source)

    async with aclosing(source.dump()) as dumped, aclosing(counting(dumped)) as pages:
        await target.fill(pages)
    return dict(counted)


async def _refuse_hosts(store: Store) -> None:
    hosts = await store.hosts()
    if hosts:
        named = ", ".join(f"{host.host_id} (pid {host.pid} on {host.hostname})" for host in hosts)
        raise Conflict(f"a host drives the runs that are to be copied, or those of the target: {named}", mend="stop it")
