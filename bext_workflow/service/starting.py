"""A start, from the request to the store's member."""

from __future__ import annotations

import hashlib
import json

import msgspec
from msgspec.structs import replace

from bext_workflow.core.state import State
from bext_workflow.core.work import CallChild
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.event import RunCreated
from bext_workflow.model.journal import rows
from bext_workflow.model.json import EMPTY, Document, JsonObject, dumps
from bext_workflow.model.origin import Parent
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Create, Index


class NewRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run that is about to be created, at its first step. `at` is ms on the store's clock.

    `key_space` and `audit` are as in the store's `Create`.
    """

    created: RunCreated
    first_step: str
    at: int
    fingerprint: str
    key_space: str
    audit: AuditEntry | None = None

    def begun(self) -> NewRun:
        """The same start, by a host that drives it at once."""
        return replace(self, created=replace(self.created, begun=True))


def create_of(new: NewRun, *, owner: str | None) -> Create:
    """The store's member for the start; `owner` is the host that drives it at once, if any."""
    begun = new.created.begun
    return Create(
        run_id=new.created.run_id,
        workflow=new.created.workflow,
        version=new.created.version,
        digest=new.created.digest,
        at=new.at,
        events=rows([new.created]),
        index=Index(
            status=WorkflowStatus.RUNNING if begun else WorkflowStatus.PENDING,
            step=new.first_step,
            wake_at=new.at,
            started_at=new.at if begun else None,
        ),
        owner=owner,
        key=new.created.key,
        key_space=new.key_space,
        fingerprint=new.fingerprint,
        tags=new.created.tags,
        root=None if new.created.parent is None else new.created.parent.root,
        audit=new.audit,
    )


CHILD_SPACE = "child"
"""Where the start keys of sub-workflows are: no caller can take one (semantics §6)."""


def child_run(
    state: State,
    action: CallChild,
    definition: WorkflowDefinition,
    *,
    run_id: str,
    at: int,
    children: dict[str, tuple[int, str]],
) -> NewRun:
    """The run that a step of `state`'s run is. It begins with the context that its branch has."""
    context = state.context_of(action.branch).to_dict()
    created = RunCreated(
        run_id=run_id,
        workflow=definition.id,
        version=definition.version,
        digest=definition.digest,
        context=Document(dumps(context), context) if context else EMPTY,
        tags=state.tags,
        key=action.key,
        by=state.by,
        children=children,
        policy=definition.policy,
        parent=Parent(
            run_id=state.run_id,
            root=state.run_id if state.parent is None else state.parent.root,
            step=action.step,
            visit=action.visit,
            depth=depth_of(state) + 1,
        ),
    )
    return NewRun(created=created, first_step=definition.first, at=at, fingerprint=action.key, key_space=CHILD_SPACE)


def depth_of(state: State) -> int:
    """How many runs are above this one."""
    return 0 if state.parent is None else state.parent.depth


def callers_space(workflow: str) -> str:
    """Where the start keys of a workflow's callers are; no space of the host's own has such a name (semantics §6)."""
    return f"workflow:{workflow}"


def fingerprint_of(context: JsonObject, tags: dict[str, str]) -> str:
    """Tells whether two starts with one key ask for the same thing, whatever the order of their keys (semantics §6)."""
    text = json.dumps([context, tags], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
