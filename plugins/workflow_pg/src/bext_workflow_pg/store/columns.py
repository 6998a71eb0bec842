"""Members of a batch as the columns of the statements that take them all at once.

Raises one of `MEMBER_FAULTS` for a value that no column takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bext_workflow.model.json import dumps
from bext_workflow.ports.store import Append, Create

Columns = list[list[object]]


def of_creates(creates: Sequence[Create]) -> Columns:
    """In the order of `create`."""
    runs = turned((_run(create) for create in creates), width=18)
    events = turned(
        (
            (create.run_id, seq, create.at, kind, data.decode())
            for create in creates
            for seq, (kind, data) in enumerate(create.events, 1)
        ),
        width=5,
    )
    return [*runs, *events, *turned((row for create in creates for row in _audit(create)), width=7)]


def of_appends(appends: Sequence[Append]) -> Columns:
    """In the order of `advance`."""
    runs = turned((_moved(append) for append in appends), width=13)
    events = turned(
        (
            (append.rid, seq, append.at, kind, data.decode())
            for append in appends
            for seq, (kind, data) in enumerate(append.events, append.seq + 1)
        ),
        width=5,
    )
    return [*runs, *events]


def turned(rows: Iterable[tuple[object, ...]], *, width: int) -> Columns:
    """Rows as columns, also where there is none."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _run(create: Create) -> tuple[object, ...]:
    index = create.index
    return (
        create.run_id,
        create.workflow,
        create.version,
        create.digest,
        index.status.value,
        index.step,
        len(create.events),
        create.owner,
        index.wake_at,
        create.key,
        create.key_space,
        create.fingerprint,
        dumps(create.tags).decode(),
        index.failure,
        create.at,
        index.started_at,
        index.ended_at,
        create.root,
    )


def _audit(create: Create) -> Iterable[tuple[object, ...]]:
    entry = create.audit
    if entry is not None:
        yield create.at, entry.by, entry.name, create.run_id, entry.about, entry.reason, entry.data.decode()


def _moved(append: Append) -> tuple[object, ...]:
    index = append.index
    return (
        append.rid,
        append.fence,
        append.seq,
        append.inbox,
        append.seq + len(append.events),
        append.at,
        index.status.value,
        index.step,
        index.wake_at,
        index.failure,
        index.started_at,
        index.ended_at,
        index.release,
    )
