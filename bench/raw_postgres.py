"""The limits of the database: what bare asyncpg does with the very rows of the saga, and what one bare commit costs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import asyncpg
import uuid_utils

from bench.raw import CREATED, DONE, MEMBERS_A_SAGA, STEPS

_RUNS_AT_A_TIME = 1_000
_CREATE = """
WITH new AS (
    INSERT INTO runs
        (run_id, workflow, version, digest, status, step, seq, owner, fence, wake_at, created_at, updated_at)
    SELECT run_id, 'saga', 1, '3b5d5c3712955042', 'RUNNING', 'reserve_stock', 1, 'host', 1, $2, $2, $2
    FROM unnest($1::text[]) AS new (run_id)
    RETURNING rid, run_id
),
journaled AS (
    INSERT INTO journal (rid, seq, at, kind, data)
    SELECT new.rid, 1, $2, 'run_created', event.data
    FROM unnest($1::text[], $3::text[]) AS event (run_id, data) JOIN new ON new.run_id = event.run_id
)
SELECT rid FROM new
"""
_ADVANCE = """
UPDATE runs SET seq = $2::bigint + 1, step = $3, updated_at = $4 FROM unnest($1::bigint[]) AS new (rid)
WHERE runs.rid = new.rid AND fence = 1 AND seq = $2::bigint AND inbox = 0
"""
_END = """
UPDATE runs SET seq = 5, step = NULL, updated_at = $2, ended_at = $2, status = 'COMPLETED', wake_at = NULL, owner = NULL
FROM unnest($1::bigint[]) AS new (rid)
WHERE runs.rid = new.rid AND fence = 1 AND seq = 3 AND inbox = 0
"""
_JOURNAL = """
INSERT INTO journal (rid, seq, at, kind, data) SELECT rid, $2, $3, $4, $5 FROM unnest($1::bigint[]) AS new (rid)
"""


async def members_per_second(url: str, *, group: int, seconds: float) -> float:
    """The saga's members a second on one connection, `group` of them in a transaction."""
    connection = await asyncpg.connect(url)
    try:
        done = 0
        begun = time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < seconds:
            for _ in range(0, _RUNS_AT_A_TIME, group):
                rids = await _create(connection, group)
                for stage in range(1, MEMBERS_A_SAGA):
                    await _append(connection, stage, rids)
                done += group * MEMBERS_A_SAGA
        return done / elapsed
    finally:
        await connection.close()


async def commit_p50_us(url: str, *, times: int = 400) -> float:
    """The median of a commit of one small row, in µs."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS bare (n bigint PRIMARY KEY, text text NOT NULL)")
        await connection.execute("TRUNCATE bare")
        taken = []
        for turn in range(times):
            begun = time.perf_counter()
            await connection.execute("INSERT INTO bare (n, text) VALUES ($1, $2)", turn, DONE)
            taken.append((time.perf_counter() - begun) * 1e6)
        return sorted(taken)[times // 2]
    finally:
        await connection.close()


async def _create(connection: asyncpg.Connection, group: int) -> list[int]:
    ids = [str(uuid_utils.uuid7()) for _ in range(group)]
    async with connection.transaction():
        rows = await connection.fetch(_CREATE, ids, _now(), [CREATED % id_ for id_ in ids])
    return [rid for (rid,) in rows]


async def _append(connection: asyncpg.Connection, stage: int, rids: Sequence[int]) -> None:
    now = _now()
    text = DONE % (STEPS[stage - 1], STEPS[stage - 1], STEPS[stage])
    async with connection.transaction():
        if stage < MEMBERS_A_SAGA - 1:
            await connection.execute(_ADVANCE, rids, stage, STEPS[stage], now)
        else:
            await connection.execute(_END, rids, now)
        await connection.execute(_JOURNAL, rids, stage + 1, now, "step_completed", text)
        if stage == MEMBERS_A_SAGA - 1:
            await connection.execute(_JOURNAL, rids, stage + 2, now, "run_completed", "{}")


def _now() -> int:
    return time.time_ns() // 1_000_000
