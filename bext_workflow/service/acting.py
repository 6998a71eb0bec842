"""Acts, as the inbox and the audit take them; judged against the run as it is in the store's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import fold
from bext_workflow.core.inbox import take, write_act
from bext_workflow.core.input import ActInput, ChildEnd, Late
from bext_workflow.core.state import Plan, State
from bext_workflow.model.journal import decode
from bext_workflow.model.json import JsonObject, dumps, loads
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Act, Judge, Loaded

Build: TypeAlias = Callable[[State, int], ActInput | None]
"""Makes an act from the run's state and the act's inbox number; None: it has been done already. May raise."""

_NAMES = {
    "cancel": "run.cancel",
    "retry": "run.retry",
    "resolve": "incident.resolve",
    "signal": "run.signal",
    "answer": "wait.answer",
    "pause": "run.pause",
    "resume": "run.resume",
}
"""The audit's verb of each kind of act."""


def folded(plan: Plan, loaded: Loaded) -> State:
    """The state of a whole loaded run."""
    return fold(plan, ((decode(row.kind, row.data), row.at) for row in loaded.events))


def judge_of(plan: Plan, build: Build, *, by: str, reason: str, now: int, audited: bool = True) -> Judge:
    """Judges an act against the run, with what is in its inbox already carried out. What no person does is not audited.

    Raises what `build` and the rules of the core raise.
    """

    def judge(loaded: Loaded) -> Act | None:
        state = take(folded(plan, loaded), loaded.inbox, now=now).state
        given = build(state, loaded.run.inbox + 1)
        if given is None:
            return None
        after = decide(state, given, now=now).state
        kind, data = write_act(given)
        told: JsonObject = {
            "before": {"status": state.status},
            "after": {"status": after.status},
            "asked": loads(data),
        }
        entry = AuditEntry(name=_NAMES[kind], by=by, reason=reason, data=dumps(told)) if audited else None
        return Act(kind=kind, by=by, data=data, audit=entry)

    return judge


def foreseen(plan: Plan, loaded: Loaded, build: Callable[[State, int], ActInput], *, now: int) -> Decision:
    """What the act would lead to, if it were taken now. Raises what the rules raise."""
    state = take(folded(plan, loaded), loaded.inbox, now=now).state
    return decide(state, build(state, loaded.run.inbox + 1), now=now)


def act_of_host(act: Late | ChildEnd, by: str) -> Act:
    """What a host has to say to a run: no person's act, so the audit does not list it."""
    kind, data = write_act(act)
    return Act(kind=kind, by=by, data=data)
