"""Schedules: which workflow is started when, and what follows where starts would pile up (semantics §8)."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.cron import CRON_RULE, Cron
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import NAME_RULE, is_name

SCHEDULE_TAG = "schedule"
SCHEDULED_AT_TAG = "scheduled_at"
"""The tags that tell of a run which schedule started it, and for which planned instant."""

RESERVED_TAGS = frozenset({SCHEDULE_TAG, SCHEDULED_AT_TAG})


class Overlap(StrEnum):
    """What follows while the run before is still live: no start, a start all the same, or one after its end."""

    SKIP = "skip"
    ALLOW = "allow"
    BUFFER_ONE = "buffer_one"


class CatchUp(StrEnum):
    """Which planned instants that passed while nothing could start them are made up for: the last, all or none."""

    LATEST = "latest"
    ALL = "all"
    SKIP = "skip"


class SlotResult(StrEnum):
    """What became of a planned instant: a run, no run (overlap), a wait, nothing in time (catch-up), a fault."""

    STARTED = "started"
    SKIPPED = "skipped"
    BUFFERED = "buffered"
    MISSED = "missed"
    FAILED = "failed"


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Starts `workflow` at the instants of `cron` in `timezone`, each at most once, with `context` and `tags`.

    `version` of None takes the highest that is served then. Raises `DefinitionError` for one that cannot be kept to.
    """

    id: str
    workflow: str
    version: int | None = None
    cron: str
    timezone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    context: JsonObject = {}
    tags: dict[str, str] = {}
    enabled: bool = True

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise DefinitionError(f"{self.id!r} cannot name a schedule", mend=f"use {NAME_RULE}")
        if not is_name(self.workflow):
            raise self._fault(f"{self.workflow!r} cannot name a workflow", mend=f"use {NAME_RULE}")
        if self.version is not None and self.version < 1:
            raise self._fault(f"the version is {self.version}", mend="versions count from 1")
        for key, kind in (("overlap", Overlap), ("catch_up", CatchUp)):
            self._make(key, kind)
        if taken := RESERVED_TAGS & self.tags.keys():
            raise self._fault(f"the tag {min(taken)!r} is the host's own", mend="give yours another name")
        try:
            _ = self.times
        except ValueError as error:
            mend = f"cron is {CRON_RULE}, such as '30 2 * * *'; timezone is a name such as 'Europe/Madrid'"
            raise self._fault(str(error), mend=mend) from None

    @cached_property
    def times(self) -> Cron:
        """When it comes round."""
        return Cron(self.cron, self.timezone)

    @property
    def rule(self) -> str:
        """The line and the zone, as one text: while it stays the same, what was missed is made up for."""
        return f"{self.cron} {self.timezone}"

    def _make(self, key: str, kind: type[StrEnum]) -> None:
        """Makes a member of a plugin's plain word."""
        try:
            msgspec.structs.force_setattr(self, key, kind(getattr(self, key)))
        except ValueError:
            words = ", ".join(member.value for member in kind)
            raise self._fault(f"{key} is {getattr(self, key)!r}", mend=f"one of {words}") from None

    def _fault(self, reason: str, *, mend: str) -> DefinitionError:
        return DefinitionError(f"schedule {self.id!r}: {reason}", mend=mend)
