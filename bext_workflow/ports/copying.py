"""What a store may offer beside `Store`: that all it keeps goes over to another one, of whatever kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

Value: TypeAlias = str | int | bytes | None


class Page(msgspec.Struct, frozen=True):
    """Some rows of a table, in the order of its columns in `KEPT`."""

    table: str
    rows: Sequence[tuple[Value, ...]]


KEPT: Mapping[str, tuple[str, ...]] = {
    "runs": (
        "rid",
        "run_id",
        "workflow",
        "version",
        "digest",
        "status",
        "step",
        "seq",
        "inbox",
        "owner",
        "fence",
        "wake_at",
        "key",
        "key_space",
        "root",
        "tags",
        "failure",
        "incidents",
        "created_at",
        "started_at",
        "updated_at",
        "ended_at",
    ),
    "journal": ("rid", "seq", "at", "kind", "data"),
    "inbox": ("rid", "n", "at", "kind", "by", "data"),
    "start_keys": ("space", "key", "run_id", "fingerprint", "removed_at"),
    "incidents": (
        "id",
        "rid",
        "run_id",
        "workflow",
        "kind",
        "call",
        "step",
        "visit",
        "attempt",
        "reason",
        "actions",
        "evidence",
        "traceback",
        "key",
        "opened_at",
        "resolved_at",
        "resolution",
    ),
    "approvals": (
        "id",
        "rid",
        "run_id",
        "workflow",
        "step",
        "visit",
        "title",
        "deciders",
        "not_by",
        "form",
        "opened_at",
        "due_at",
        "closed_at",
        "resolution",
    ),
    "secrets": ("name", "value"),
    "definitions": ("workflow", "version", "digest", "policy", "saved", "body"),
    "schedules": (
        "id",
        "paused",
        "rule",
        "handled",
        "buffered",
        "last_slot",
        "last_result",
        "last_run_id",
        "updated_at",
    ),
    "audit": ("id", "at", "by", "name", "run_id", "about", "reason", "data"),
    "tokens": (
        "id",
        "name",
        "digest",
        "scopes",
        "roles",
        "created_at",
        "created_by",
        "expires_at",
        "revoked_at",
    ),
    "webhooks": ("id", "url", "events", "workflows", "secret", "created_at", "created_by", "removed_at"),
    "deliveries": (
        "id",
        "webhook_id",
        "run_id",
        "event",
        "body",
        "at",
        "state",
        "attempts",
        "next_at",
        "status",
        "error",
        "settled_at",
    ),
}
"""Every table that is not about the place alone, as hosts are. Truth values are 0 and 1."""


@runtime_checkable
class Copyable(Protocol):
    """An open store that gives and takes all that it keeps."""

    def dump(self) -> AsyncGenerator[Page, None]:
        """Everything, as of one moment. Raises `StoreUnavailable`."""

    async def fill(self, pages: AsyncIterator[Page]) -> None:
        """Takes everything, in one transaction. Raises `Conflict` for a store that holds something, or has hosts.

        No host joins meanwhile. Raises `StoreUnavailable`, and whatever the pages raise; then nothing was taken.
        """
