"""What a plugin is told of a run: a read-only snapshot (semantics §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import WorkflowStatus


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """One visit that has something to undo, linked to those that completed before it (newest first).

    `updates` and `undo_data` are that visit's own, `item` and `index` those of its map. `own` marks the failed visit
    that may have acted and whose undo runs first (`compensate_on_failure`); it never completed.
    """

    step: str
    visit: int
    branch: int = 0
    place: str = ""
    updates: JsonObject = {}
    undo_data: Json = None
    index: int | None = None
    item: Json = None
    own: bool = False
    before: Completed | None = None


def newest_first(completed: Completed | None) -> Iterator[Completed]:
    """Walks the list in the order in which it is undone."""
    while completed is not None:
        yield completed
        completed = completed.before


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The run as one call of the plugin sees it.

    `context` is a read-only mapping; what is nested in it is the plugin's own copy. `idempotency_key` is the same for
    every attempt of this visit, on every host and after every crash: hand it to the services that you call. `attempt`
    and `visit` count from 1. In the branches of a map `item` is the one that the branch is for, and
    `index` its place. `undo_data` and `failure` are set while the run compensates. Instants are ms since
    the epoch, UTC.
    """

    run_id: str
    workflow: str
    version: int
    status: WorkflowStatus
    context: Mapping[str, Json]
    step: str
    attempt: int
    visit: int
    idempotency_key: str
    completed: Completed | None = None
    undo_data: Json = None
    failure: str | None = None
    item: Json = None
    index: int | None = None
    key: str | None = None
    tags: Mapping[str, str] = {}
    created_at: int = 0
    started_at: int | None = None
    updated_at: int = 0

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The steps that are done and not undone, in the order in which they completed; one entry a visit."""
        return tuple(done.step for done in newest_first(self.completed) if not done.own)[::-1]
