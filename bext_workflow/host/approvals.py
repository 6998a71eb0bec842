"""What an append says of approvals: which are asked for now, and which are no longer, and why."""

from __future__ import annotations

from typing import TypeAlias

from bext_workflow.core.decide import Decision
from bext_workflow.core.state import Answer, Branch, Phase, State, visit_key
from bext_workflow.model.event import AnswerReceived, AnswerTaken, StepFailed, WaitEnded
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import WaitEnd
from bext_workflow.ports.store import ApprovalRow

Closed: TypeAlias = tuple[tuple[str, Json], ...]


def changes_of(before: State, decision: Decision, at: int) -> tuple[tuple[ApprovalRow, ...], Closed]:
    """The approvals that are open from now on, and the (id, {how, by, comment}) of those that are not any more."""
    was, now = _open(before), _open(decision.state)
    asked = tuple(
        _row(decision.state, key, branch, at)
        for key, branch in now.items()
        if key not in was or was[key].wait_opened != branch.wait_opened
    )
    ends = _ends(before, decision)
    return asked, tuple((key, ends.get(key, {"how": "stopped"})) for key in was if key not in now)


def _open(state: State) -> dict[str, Branch]:
    asking = state.plan.definition.approvals
    waiting = (branch for branch in state.branches if branch.phase is Phase.WAITING and branch.step in asking)
    return {visit_key(state.run_id, one.step, one.visit, one.place): one for one in waiting}


def _row(state: State, key: str, branch: Branch, at: int) -> ApprovalRow:
    wait = state.plan.step(branch.step).wait
    approval = None if wait is None else wait.approval
    if wait is None or approval is None:
        raise ValueError(f"step {branch.step!r} is no approval")
    return ApprovalRow(
        id=key,
        run_id=state.run_id,
        workflow=state.workflow,
        step=branch.step,
        visit=branch.visit,
        title=approval.title,
        by=approval.by,
        not_by=approval.not_by,
        form=wait.schema,
        opened_at=at,
        due_at=None if branch.wait is None else branch.wait.due_at,
    )


def _ends(before: State, decision: Decision) -> dict[str, JsonObject]:
    """How each wait has ended, by the key of its visit."""
    answers: dict[str, Answer | AnswerReceived] = {answer.key: answer for answer in before.answers}
    ends: dict[str, JsonObject] = {}
    for event in decision.events:
        match event:
            case AnswerReceived():
                answers[event.key] = event
            case AnswerTaken(key=key):
                answer = answers[key]
                how = "approved" if answer.approved else "rejected"
                ends[key] = {"how": how, "by": answer.by, "comment": answer.comment}
            case WaitEnded(how=WaitEnd.TIMER | WaitEnd.PERSON) | StepFailed():
                key = visit_key(before.run_id, event.step, event.visit, _place(before, event.branch))
                how = "person" if isinstance(event, WaitEnded) and event.how is WaitEnd.PERSON else "timeout"
                ends.setdefault(key, {"how": how})
            case _:
                continue
    return ends


def _place(state: State, branch: int) -> str:
    place: str = state.places.get(str(branch), "")
    return place
