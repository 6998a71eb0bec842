"""Approvals: who may decide, and what a decision or a token's answer does (semantics §9)."""

from __future__ import annotations

import msgspec

from bext_workflow.core.input import ActInput, Answered
from bext_workflow.core.state import State
from bext_workflow.core.waiting import refuse_answer
from bext_workflow.errors import Conflict, Gone, NotAllowed, NotFound, UsageError
from bext_workflow.model.access import BY_TOKEN, Caller, Right
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import detach
from bext_workflow.model.view import ApprovalView, Decision, Page, instant, instant_or_none
from bext_workflow.model.wait import MAX_SIGNAL_BYTES, ApprovalDefinition, NotBy
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import ApprovalRow, Store
from bext_workflow.service import wait_tokens
from bext_workflow.service.caller import Who
from bext_workflow.service.paging import checked_cursor, checked_limit, page_of
from bext_workflow.service.payloads import check_payload
from bext_workflow.service.protocols import DEFAULT_LIMIT, Acknowledged, CompleteRequest, DecideRequest
from bext_workflow.service.service import Service

HOLDER = Caller(by="wait-token", scopes=frozenset())
"""Who decided, where it was whoever held the token of the wait, to whom no rule about persons applies."""


class ApprovalService:
    """`service.protocols.Approvals` over a store. `who` tells who decides."""

    def __init__(self, *, store: Store, service: Service, clock: Clock, who: Who) -> None:
        self._store = store
        self._service = service
        self._clock = clock
        self._who = who

    async def approvals(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[ApprovalView]:
        bound = checked_limit(limit)
        whole_id = (await self._service.find(run_id)).run_id if run_id is not None else None
        before = checked_cursor(cursor, of_keys=True)
        rows = await self._store.approvals(run_id=whole_id, open_only=open_only, limit=bound + 1, before=before)
        return page_of([_view(row) for row in rows], bound, lambda approval: approval.id)

    async def decide(self, approval_id: str, request: DecideRequest) -> Acknowledged:
        caller = self._who()
        if not caller.names:
            raise NotAllowed(
                "nobody knows who decides, so that nobody may",
                mend="make access tokens with `bext-host tokens create`, or send the wait's token in place of the id",
            )
        row = await self._find(approval_id)
        caller.require(Right.SIGNAL, row.workflow)
        answer = CompleteRequest(payload=request.form, approved=request.approved, comment=request.comment)
        return await self._answer(row.id, answer, caller)

    async def complete(self, token: str, request: CompleteRequest) -> Acknowledged:
        key = wait_tokens.key_of(await self._store.secret(wait_tokens.SIGNED_WITH), token)
        if key is None:
            raise NotFound("there is no wait with this token", mend="use the token as it was given, whole")
        return await self._answer(key, request, HOLDER)

    async def _answer(self, key: str, request: CompleteRequest, caller: Caller) -> Acknowledged:
        detach({"payload": request.payload, "comment": request.comment}, max_bytes=MAX_SIGNAL_BYTES, what="the payload")
        run_id, _, visit = key.partition(":")

        def build(state: State, act: int) -> ActInput:
            refuse_answer(state, key)
            step = state.plan.definition.by_name.get(_step_of(visit))
            if step is None:
                raise NotFound(f"the run has no step {_step_of(visit)!r}")
            _check(step, state, request, caller)
            return Answered(
                act=act,
                by=caller.by,
                at=self._clock.now(),
                key=key,
                payload=request.payload,
                approved=request.approved,
                comment=request.comment,
            )

        run = await self._service.find(run_id)
        return await self._service.act_on(run, build, reason=request.comment, act="answer", by=caller.by)

    async def _find(self, prefix: str) -> ApprovalRow:
        found = await self._store.approval(prefix) if prefix else []
        if found and found[0].id == prefix:  # a whole id is nothing else's beginning: an old one decides no later one
            found = found[:1]
        still_open = [row for row in found if row.closed_at is None]
        if len(still_open) > 1:
            raise Conflict(f"more than one open approval begins with {prefix!r}", mend="give more of the id")
        if not found:
            raise NotFound(f"no approval {prefix!r}", mend="`approvals list` shows the open ones")
        if not still_open:
            raise Gone(f"the approval {found[0].id} is over", mend="`approvals list --all` shows what was decided")
        return still_open[0]


def _check(step: StepDefinition, state: State, request: CompleteRequest, caller: Caller) -> None:
    """Raises for what this wait does not take, and for who may not decide."""
    approval = step.wait.approval if step.wait is not None else None
    if approval is None:
        if request.approved is not None:
            raise UsageError(f"step {step.name!r} waits for no decision", mend="leave approved out")
    elif request.approved is None:
        raise UsageError(f"step {step.name!r} waits for a decision", mend="say approved: true or false")
    elif caller is not HOLDER:
        _check_person(approval, state, caller)
    rejected = request.approved is False and request.payload is None  # a rejection needs no form
    if step.wait is not None and not rejected:
        check_payload(step.wait.schema, request.payload, at="$.payload")


def _check_person(approval: ApprovalDefinition, state: State, caller: Caller) -> None:
    """Somebody at the store itself and a token of the same name are the same person."""
    if approval.not_by is NotBy.STARTER and state.by.removeprefix(BY_TOKEN) in caller.names:
        raise NotAllowed(f"{caller.by} started the run and may not decide it", mend="let somebody else decide")
    if approval.by and not set(approval.by).intersection(caller.names):
        raise NotAllowed(f"{caller.by} may not decide this", mend=f"these may: {', '.join(approval.by)}")


def _step_of(visit: str) -> str:
    """The step's name of `ask[3]#2`."""
    return visit.partition("#")[0].partition("[")[0]


def _view(row: ApprovalRow) -> ApprovalView:
    return ApprovalView(
        id=row.id,
        run_id=row.run_id,
        workflow=row.workflow,
        step=row.step,
        visit=row.visit,
        title=row.title,
        by=list(row.by),
        not_by=row.not_by,
        form=row.form,
        opened_at=instant(row.opened_at),
        due_at=instant_or_none(row.due_at),
        closed_at=instant_or_none(row.closed_at),
        resolution=msgspec.convert(row.resolution, Decision | None),
    )
