"""The batch: all members in one transaction and few statements, or, if one of them does not hold, one by one (P7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from bext_workflow.model.json import dumps
from bext_workflow.ports.store import Append, Committed, Create, Index, Member, Result
from bext_workflow.stores.sqlite import queries, webhooks
from bext_workflow.stores.sqlite.acts import audit
from bext_workflow.stores.sqlite.connection import writing
from bext_workflow.stores.sqlite.faults import MEMBER_FAULTS
from bext_workflow.stores.sqlite.many import execute_rows
from bext_workflow.stores.sqlite.rows import approval_values, incident_values
from bext_workflow.stores.sqlite.verdict import why_not

_SQL = queries.load("write.sql")


class _Uneven(Exception):
    """A member does not hold: it is not known yet which one, and why."""


def write(connection: sqlite3.Connection, batch: Sequence[Member]) -> Sequence[Result]:
    try:
        with writing(connection):
            return _together(connection, batch)
    except (_Uneven, *MEMBER_FAULTS):
        pass
    with writing(connection):
        return _one_by_one(connection, batch)


def beat(connection: sqlite3.Connection) -> None:
    """Writes something, down to the disk, that changes nothing."""
    with writing(connection):
        connection.execute(_SQL["beat"])


def _together(connection: sqlite3.Connection, batch: Sequence[Member]) -> Sequence[Result]:
    """Raises `_Uneven`, or one of `MEMBER_FAULTS`, unless every member holds."""
    creates = [member for member in batch if isinstance(member, Create)]
    appends = [member for member in batch if isinstance(member, Append)]
    rids = _insert_runs(connection, creates) if creates else range(0)
    if appends:
        _advance(connection, appends)
    fresh = iter(rids)
    results = [
        Committed(member.rid, member.seq + len(member.events))
        if isinstance(member, Append)
        else Committed(next(fresh), len(member.events))
        for member in batch
    ]
    execute_rows(
        connection,
        _SQL["insert_event"],
        [
            (result.rid, seq, member.at, kind, data.decode())
            for member, result in zip(batch, results, strict=True)
            for seq, (kind, data) in enumerate(member.events, result.seq - len(member.events) + 1)
        ],
    )
    return results


def _insert_runs(connection: sqlite3.Connection, creates: Sequence[Create]) -> range:
    """Returns the new runs' numbers."""
    connection.execute(_SQL["draw_rids"], (len(creates),))
    (last,) = connection.execute(_SQL["last_rid"]).fetchone()
    rids = range(last - len(creates) + 1, last + 1)
    execute_rows(connection, _SQL["insert_run"], list(map(_run_values, rids, creates)))
    keys = [
        (create.key_space, create.key, create.run_id, create.fingerprint)
        for create in creates
        if create.key is not None
    ]
    if keys:
        execute_rows(connection, _SQL["insert_start_key"], keys)
    for create in creates:
        if create.audit is not None:
            audit(connection, create.audit, at=create.at, run_id=create.run_id)
    return rids


def _run_values(rid: int, create: Create) -> tuple[object, ...]:
    """In the order of `insert_run`."""
    index = create.index
    return (
        rid,
        create.run_id,
        create.workflow,
        create.version,
        create.digest,
        index.status.value,
        index.step,
        len(create.events),
        create.owner,
        0 if create.owner is None else 1,
        index.wake_at,
        create.key,
        create.key_space,
        create.root,
        dumps(create.tags).decode(),
        index.failure,
        create.at,
        index.started_at,
        create.at,
        index.ended_at,
    )


def _advance(connection: sqlite3.Connection, appends: Sequence[Append]) -> None:
    """Moves the runs' rows, each on condition that it stands as its append supposes; then whatever else changes."""
    staying = [_supposed(append) + _new(append) for append in appends if not _moves(append)]
    moving = [_supposed(append) + _new(append) + _moved(append.index) for append in appends if _moves(append)]
    held = execute_rows(connection, _SQL["advance"], staying)
    held += execute_rows(connection, _SQL["advance_and_move"], moving)
    # Nor do several of one run hold in one statement, which moves a row once; one by one they do, in their order.
    if held != len(appends):
        raise _Uneven
    for append in appends:
        if append.taken:
            connection.execute(_SQL["take_acts"], (append.rid, append.taken))
        if append.opened or append.resolved or append.evidence:
            _change_incidents(connection, append)
        if append.asked or append.decided:
            _change_approvals(connection, append)
        if append.deliveries:
            webhooks.keep(connection, append.deliveries)


def _moves(append: Append) -> bool:
    """Whether an indexed column changes."""
    before, after = append.previous, append.index
    return before is None or after.release or _indexed(before) != _indexed(after)


def _indexed(index: Index) -> tuple[object, ...]:
    return index.status, index.wake_at, index.ended_at


def _new(append: Append) -> tuple[object, ...]:
    index = append.index
    seq = append.seq + len(append.events)
    return seq, index.step, index.failure, index.started_at, append.at


def _moved(index: Index) -> tuple[object, ...]:
    return index.status.value, index.wake_at, index.ended_at, index.release


def _supposed(append: Append) -> tuple[object, ...]:
    return append.rid, append.fence, append.seq, append.inbox


def _change_incidents(connection: sqlite3.Connection, append: Append) -> None:
    rid = append.rid
    for incident in append.opened:
        connection.execute(_SQL["open_incident"], incident_values(rid, incident))
    for incident_id, evidence in append.evidence:
        connection.execute(_SQL["attach_evidence"], (dumps(evidence).decode(), incident_id, rid))
    for incident_id, resolution in append.resolved:
        connection.execute(_SQL["resolve_incident"], (append.at, dumps(resolution).decode(), incident_id, rid))
    connection.execute(_SQL["count_incidents"], (rid,))


def _change_approvals(connection: sqlite3.Connection, append: Append) -> None:
    for approval_id, resolution in append.decided:
        connection.execute(_SQL["decide"], (append.at, dumps(resolution).decode(), approval_id, append.rid))
    for approval in append.asked:
        connection.execute(_SQL["ask"], approval_values(append.rid, approval))


def _one_by_one(connection: sqlite3.Connection, batch: Sequence[Member]) -> Sequence[Result]:
    """Each member in a savepoint of its own. Once one of a run fails, its owner's later ones do (semantics §6)."""
    failed: dict[tuple[int, int], Result] = {}
    results: list[Result] = []
    for member in batch:
        if isinstance(member, Create):
            results.append(_alone(connection, member))
            continue
        owned = member.rid, member.fence
        result = failed.get(owned) or _alone(connection, member)
        if not isinstance(result, Committed):
            failed[owned] = result
        results.append(result)
    return results


def _alone(connection: sqlite3.Connection, member: Member) -> Result:
    connection.execute("SAVEPOINT member")
    try:
        (result,) = _together(connection, (member,))
    except (_Uneven, *MEMBER_FAULTS) as fault:
        connection.execute("ROLLBACK TO member")
        result = why_not(connection, member, str(fault))
    connection.execute("RELEASE member")
    return result
