"""What is old is removed on command, as a host removes it by itself."""

from __future__ import annotations

from collections import Counter

from bext_workflow.model.json import dumps
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.retention import Pruned, RetentionDays
from bext_workflow.ports.store import Store

_BATCH = 100


async def prune_store(store: Store, days: RetentionDays, clock: Clock, *, by: str, dry_run: bool) -> Pruned:
    """Removes all that is older than its days, in small batches; or tells how much that would be."""
    now = clock.now()
    expired = days.expired(now)
    if dry_run:
        return await store.prunable(expired)
    before = {status.value: at for status, at in expired.ended_before.items()}
    audit = AuditEntry(name="store.prune", by=by, data=dumps({"ended_before": before}))
    runs = Counter(dict.fromkeys(expired.ended_before, 0))
    start_keys = 0
    while pruned := await store.prune(expired, at=now, limit=_BATCH, audit=audit):
        runs.update(pruned.runs)
        start_keys += pruned.start_keys
    return Pruned(runs=runs, start_keys=start_keys)
