"""The audit as it is read: who did what, when and why."""

from __future__ import annotations

import msgspec


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
