"""The audit: who did what, when and why."""

from __future__ import annotations

import msgspec


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A person's act as the audit remembers it. `name` is its verb, `about` what it is about but a run: `token:ci`."""

    name: str
    by: str
    reason: str = ""
    about: str = ""
    data: bytes = b"{}"


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what, to which run or other thing, why. What it is not about is empty."""

    id: int
    at: int
    by: str
    name: str
    run_id: str
    about: str = ""
    reason: str
    data: bytes


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold. `since`/`until` bound `at` (ms, until exclusive)."""

    run_id: str | None = None
    about: str | None = None
    by: str | None = None
    name: str | None = None
    since: int | None = None
    until: int | None = None


ALL = AuditFilter()
