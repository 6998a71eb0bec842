"""What a store removes when it is old: runs that have ended, with all that belongs to them, and their start keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry

DAY_MS = 86_400_000


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """What is old enough to be removed (ms): runs that have ended in a status before then; keys of removed runs.

    Runs of a status that is not in `ended_before` are kept. A start key is forgotten when its run was removed before
    `keys_before`.
    """

    ended_before: Mapping[WorkflowStatus, int] = {}
    keys_before: int = 0


class RetentionDays(msgspec.Struct, frozen=True, kw_only=True):
    """How long runs are kept from their end on, by how they ended; 0: for good. And start keys, once their run is gone.

    A child is kept as long as the topmost run above it.
    """

    completed: int = 30
    compensated: int = 90
    failed: int = 90
    cancelled: int = 90
    start_keys: int = 400

    def expired(self, now: int) -> Expired:
        """What is old enough at that time (ms)."""
        days = {
            WorkflowStatus.COMPLETED: self.completed,
            WorkflowStatus.COMPENSATED: self.compensated,
            WorkflowStatus.FAILED: self.failed,
            WorkflowStatus.CANCELLED: self.cancelled,
        }
        return Expired(
            ended_before={status: now - kept * DAY_MS for status, kept in days.items() if kept},
            keys_before=now - self.start_keys * DAY_MS,
        )


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How much was removed: runs, by the status of the topmost run of their family, and start keys."""

    runs: Mapping[WorkflowStatus, int] = {}
    start_keys: int = 0

    def __bool__(self) -> bool:
        return any(self.runs.values()) or self.start_keys > 0


class Retaining(Protocol):
    """The part of a store that is about what it keeps."""

    async def prune(self, expired: Expired, *, at: int, limit: int, audit: AuditEntry | None = None) -> Pruned:
        """Removes some of what is expired, longest first: about `limit` runs and as many keys; none: that was all.

        A run goes with its children and theirs, its journal, incidents and approvals, in one transaction, and its start
        key is marked as that of a run removed at `at`. It stays if any of its family has not ended, has an open
        incident, something left to do (a completion call, an act in its inbox), or an owner. What it has left to tell
        webhooks, and the audit, stay. Where hosts share a store one of them removes at a time: the others get none.

        `audit` is kept with what is removed, if anything is.
        """

    async def prunable(self, expired: Expired) -> Pruned:
        """How much `prune` would remove in all."""

    async def backup(self, to: Path) -> None:
        """Writes all that the store keeps, as of one moment, into a new file, while hosts go on.

        Raises `Conflict` if the file is there already, and `UsageError` where the store's own tools do that: it says
        how.
        """
