"""What a plugin is told of a run: a read-only snapshot (semantics §2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.transaction import Database, Transact


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """One visit that has something to undo, linked to those that completed before it (newest first).

    `updates` and `undo_data` are that visit's own, `item` and `index` those of its map. `own` marks the failed visit
    that may have acted and whose undo runs first (`compensate_on_failure`); it never completed. `child`: the run that
    the visit was, if it was one.
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
    child: str | None = None
    before: Completed | None = None


def newest_first(completed: Completed | None) -> Iterator[Completed]:
    """Walks the list in the order in which it is undone."""
    while completed is not None:
        yield completed
        completed = completed.before


Mint: TypeAlias = Callable[[str | None], str]
"""Makes the wait token of this visit, or of the next one of a step."""


Beat: TypeAlias = Callable[[Json], None]
"""Takes a heartbeat."""


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The run as one call of the plugin sees it.

    `context` is a read-only mapping; what is nested in it is the plugin's own copy. `idempotency_key` is the same for
    every attempt of this visit, on every host and after every crash: hand it to the services that you call. `attempt`
    and `visit` count from 1. In the branches of a map `item` is the one that the branch is for, and `index` its place.
    `heartbeat_detail` is what an earlier attempt of this visit said last. `undo_data` and `failure` are set while the
    run compensates. Instants are ms since the epoch, UTC.
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
    heartbeat_detail: Json = None
    beat: Beat | None = None
    mint: Mint | None = None
    transact: Transact | None = None

    def heartbeat(self, detail: Json = None) -> None:
        """Says that the attempt is alive, and how far it has come: at most 4 KiB of JSON.

        Its end moves to the step's `heartbeat_ms` from now, at least. The next attempt finds the last detail in
        `heartbeat_detail`, also after a crash; it is written at most once a second. May be called from any thread.
        Raises `DefinitionError` in a step that states no `heartbeat_ms`, `InvalidJson` for a detail that is none.
        """
        if self.beat is not None:
            self.beat(detail)

    @property
    def wait_token(self) -> str:
        """The right to answer the wait that this step opens by returning Wait: see `wait_token_for`."""
        return self.wait_token_for(None)

    def wait_token_for(self, step: str | None) -> str:
        """The right to answer the next wait of that declared step, once, for whoever holds it (semantics §9).

        It is the same for every attempt, and may be mailed before the wait is durable. Raises `DefinitionError` for a
        step that the workflow does not have, and where no host drives the run.
        """
        if self.mint is None:
            raise DefinitionError("wait tokens are made by a host", mend="ask for them in run_step")
        return self.mint(step)

    @property
    def transactional(self) -> bool:
        """Whether this call has a transaction."""
        return self.transact is not None

    def transaction(self) -> AbstractAsyncContextManager[Database]:
        """A connection inside the transaction of this step's own checkpoint: `async with run.transaction() as db`.

        What is done there is durable with the checkpoint of Continue or Wait, or it never was: Retry, Fail, a raised
        error, a time-out and a crash roll it back. The block may be entered again; an error that leaves it fails the
        attempt, whatever is returned then. Raises `DefinitionError` in a call that is not of a transactional step.
        """
        if self.transact is None:
            raise DefinitionError(
                f"step {self.step!r} has no transaction here",
                mend="declare it transactional = true, and use run.transaction() in run_step only",
            )
        return self.transact()

    @property
    def completed_steps(self) -> tuple[str, ...]:
        """The steps that are done and not undone, in the order in which they completed; one entry a visit."""
        return tuple(done.step for done in newest_first(self.completed) if not done.own)[::-1]
