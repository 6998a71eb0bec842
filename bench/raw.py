"""The limits of the machine: what bare sqlite3 does with the very rows of the saga, and what a bare fdatasync costs."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import uuid_utils

from bext_workflow.model.definition import WorkflowDefinition, write_definition
from bext_workflow.model.event import RunCreated, WaitOpened
from bext_workflow.model.journal import rows
from bext_workflow.model.json import EMPTY
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.wait import WaitFor
from bext_workflow.service.protocols import RunQuery
from bext_workflow.stores.sqlite import schema

MEMBERS_A_SAGA = 4
"""Its creation and three appends: what is committed one by one, or grouped."""

_RUNS_AT_A_TIME = 1_000
_INSERT_RUN = """
INSERT INTO runs
    (rid, run_id, workflow, version, digest, status, step, seq, owner, fence, wake_at, created_at, updated_at)
VALUES (?, ?, 'saga', 1, '3b5d5c3712955042', 'RUNNING', 'reserve_stock', 1, 'host', 1, ?, ?, ?)
"""
_INSERT_WAITING = """
INSERT INTO runs (rid, run_id, workflow, version, digest, status, step, seq, fence, created_at, started_at, updated_at)
VALUES (?, ?, ?, ?, ?, 'WAITING', 'hold', 2, 1, 1, 1, 1)
"""
_INSERT_DEFINITION = (
    "INSERT INTO definitions (workflow, version, digest, policy, saved, body) VALUES (?, ?, ?, ?, 1, ?)"
)
_ADVANCE = "UPDATE runs SET seq = ?, step = ?, updated_at = ? WHERE rid = ? AND fence = 1 AND seq = ? AND inbox = 0"
_END = """
UPDATE runs SET seq = 5, step = NULL, updated_at = ?, ended_at = ?, status = 'COMPLETED', wake_at = NULL, owner = NULL
WHERE rid = ? AND fence = 1 AND seq = 3 AND inbox = 0
"""
_INSERT_EVENT = "INSERT INTO journal (rid, seq, at, kind, data) VALUES (?, ?, ?, ?, ?)"
CREATED = (
    '{"run_id":"%s","workflow":"saga","version":1,"digest":"3b5d5c3712955042","context":{"order_id":"o-1","sku":"widget",'
    '"quantity":1,"payment_method":"pm_ok","email":"a@b.c","note":"-"},"by":"bench","begun":true}'
)
DONE = '{"step":"%s","visit":1,"attempt":1,"updates":{"%s_id":"r-123456"},"next":"%s"}'
STEPS = ("reserve_stock", "charge_card", "send_receipt", "end")


def members_per_second(folder: Path, *, group: int, seconds: float) -> float:
    """The saga's members a second, `group` of them in a transaction; WAL, synchronous=FULL, integer keys."""
    connection = _open(folder / f"raw-{group}.db")
    done = first = 0
    begun = time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < seconds:
        rids = range(first + 1, first + _RUNS_AT_A_TIME + 1)
        for stage in range(MEMBERS_A_SAGA):
            for start in range(0, len(rids), group):
                _commit(connection, stage, rids[start : start + group])
            done += len(rids)
        first += _RUNS_AT_A_TIME
    connection.close()
    return done / elapsed


def fdatasync_p50_us(folder: Path, *, times: int = 400) -> float:
    """The median of a 4 KiB overwrite and fdatasync in a preallocated file, in µs."""
    path = folder / "fdatasync"
    block = os.urandom(4096)
    path.write_bytes(block * 64)
    handle = os.open(path, os.O_RDWR)
    os.fsync(handle)
    taken = []
    for turn in range(times):
        begun = time.perf_counter()
        os.pwrite(handle, block, turn % 64 * 4096)
        os.fdatasync(handle)
        taken.append((time.perf_counter() - begun) * 1e6)
    os.close(handle)
    return sorted(taken)[times // 2]


def fill(path: Path, runs: int) -> None:
    """Puts `runs` ended sagas into a fresh store, in large transactions, and waits until they are on the disk."""
    connection = _open(path)
    connection.execute("PRAGMA synchronous = OFF")
    for first in range(1, runs + 1, 10_000):
        rids = range(first, min(first + 10_000, runs + 1))
        for stage in range(MEMBERS_A_SAGA):
            _commit(connection, stage, rids)
    connection.execute("UPDATE numbers SET last = ? WHERE name = 'rid'", (runs,))
    connection.close()
    os.sync()


def fill_waiting(path: Path, runs: int, definition: WorkflowDefinition) -> None:
    """Puts `runs` runs that wait for the signal `go`, for good, into a fresh store."""
    connection = _open(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    key = definition.id, definition.version, definition.digest
    body = write_definition(definition).decode()
    connection.execute(_INSERT_DEFINITION, (*key, definition.policy, body))
    wait = WaitOpened(step="hold", visit=1, wait=WaitFor(signal="go"))
    for rid in range(1, runs + 1):
        created = RunCreated(
            run_id=str(uuid_utils.uuid7()),
            workflow=key[0],
            version=key[1],
            digest=key[2],
            policy=definition.policy,
            context=EMPTY,
            begun=True,
        )
        connection.execute(_INSERT_WAITING, (rid, created.run_id, *key))
        for seq, (kind, data) in enumerate(rows([created, wait]), 1):
            connection.execute(_INSERT_EVENT, (rid, seq, 1, kind, data.decode()))
    connection.execute("COMMIT")
    connection.execute("UPDATE numbers SET last = ? WHERE name = 'rid'", (runs,))
    connection.close()
    os.sync()


def waiting_query() -> RunQuery:
    """One of the waiting runs."""
    return RunQuery(workflow="waiting", status=(WorkflowStatus.WAITING,), limit=1)


def _commit(connection: sqlite3.Connection, stage: int, rids: Sequence[int]) -> None:
    now = time.time_ns() // 1_000_000
    connection.execute("BEGIN IMMEDIATE")
    if stage == 0:
        ids = [str(uuid_utils.uuid7()) for _ in rids]
        connection.executemany(_INSERT_RUN, [(rid, id_, now, now, now) for rid, id_ in zip(rids, ids, strict=True)])
        events = [(rid, 1, now, "run_created", CREATED % id_) for rid, id_ in zip(rids, ids, strict=True)]
    else:
        text = DONE % (STEPS[stage - 1], STEPS[stage - 1], STEPS[stage])
        events = [(rid, stage + 1, now, "step_completed", text) for rid in rids]
        if stage < MEMBERS_A_SAGA - 1:
            connection.executemany(_ADVANCE, [(stage + 1, STEPS[stage], now, rid, stage) for rid in rids])
        else:
            connection.executemany(_END, [(now, now, rid) for rid in rids])
            events += [(rid, stage + 2, now, "run_completed", "{}") for rid in rids]
    connection.executemany(_INSERT_EVENT, events)
    connection.execute("COMMIT")


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    schema.migrate(connection, "the raw store")
    return connection
