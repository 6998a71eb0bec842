"""What hosts tell one another: the id of a host whose runs have got acts, or nothing but that something may be due.

Ids only, with the transaction that they are about. A wake-up that is lost costs a poll interval (P37).
"""

from __future__ import annotations

import asyncio

import asyncpg
import msgspec

from bext_workflow.ports.hosting import Hear
from bext_workflow_pg.store.connections import Connection, connect
from bext_workflow_pg.store.faults import STORE_FAULTS

HEARTBEAT_S = 10.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0


class Wakeups(msgspec.Struct, frozen=True):
    """One schema's channel."""

    channel: str

    async def tell(self, connection: Connection, host_id: str | None) -> None:
        """Goes out with the COMMIT of the transaction that the connection is in."""
        await connection.execute("SELECT pg_notify($1, $2)", self.channel, host_id or "")

    async def listen(self, url: str, hear: Hear) -> None:
        """Listens on a connection of its own, and on another one when it is lost, until it is cancelled."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection = await connect(url)
            except STORE_FAULTS:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            try:
                await self._listen_on(connection, hear)
            except STORE_FAULTS:
                pass
            finally:
                connection.terminate()

    async def _listen_on(self, connection: asyncpg.Connection, hear: Hear) -> None:
        """Returns when the connection is lost."""
        lost = asyncio.Event()

        def heard(_: object, pid: int, channel: str, payload: object) -> None:
            del pid, channel
            hear(str(payload) or None)

        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(self.channel, heard)
        # Only now is nothing missed any more; what came before is found by looking.
        hear(None)
        while not lost.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await lost.wait()
            except TimeoutError:
                await connection.execute("SELECT 1")
