"""Where a run stood at one of its events, for another run to begin there (semantics §13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bext_workflow.core.evolve import evolve, fold
from bext_workflow.core.state import ROOT, Phase, Plan, State
from bext_workflow.errors import Conflict
from bext_workflow.model.event import Event

Journal = Sequence[tuple[Event, int]]


def standing_at(plan: Plan, journal: Journal, seq: int) -> State:
    """The run as of event `seq`, if another run can begin there. Raises `Conflict` that names the nearest ones."""
    if not 1 <= seq <= len(journal):
        raise Conflict(f"the run has no event {seq}", mend=f"its events are 1 to {len(journal)}")
    states = list(_states(plan, journal))
    fault = _fault(states[seq - 1])
    if fault is not None:
        raise Conflict(f"no run can begin at event {seq}: {fault}", mend=_nearest(states, seq))
    return states[seq - 1]


def standing_before(plan: Plan, journal: Journal, step: str) -> State:
    """The run as it last came to `step`. Raises `Conflict` if it never did on its own line."""
    if step not in plan.definition.by_name:
        names = ", ".join(plan.definition.by_name)
        raise Conflict(f"workflow {plan.definition.id!r} has no step {step!r}", mend=f"its steps: {names}")
    found: State | None = None
    visits = 0
    for state in _states(plan, journal):
        stands = _fault(state) is None and state.branches[0].step == step
        if stands and state.branches[0].visit > visits:
            found, visits = state, state.branches[0].visit
    if found is None:
        raise Conflict(f"no run can begin at step {step!r}: this one never stood there alone", mend="see `runs events`")
    return found


def _states(plan: Plan, journal: Journal) -> Iterator[State]:
    """The run after each of its events."""
    first, *rest = journal
    state = fold(plan, [first])
    yield state
    for event, at in rest:
        state = evolve(state, event, at)
        yield state


def _fault(state: State) -> str | None:
    """Why no run can begin where this one stands; None if one can."""
    if state.undo is not None or state.own:
        return "it walks back there"
    if not state.branches:
        return "it has come to its end there"
    if len(state.branches) > 1 or state.groups or state.branches[0].id != ROOT:
        return "it has several branches there"
    (branch,) = state.branches
    if branch.phase is Phase.STOPPED or state.stop is not None:
        return "it is being stopped there"
    if branch.phase is Phase.WAITING and not state.plan.step(branch.step).hosted:
        return f"step {branch.step!r} is done there, and waits before it goes on"
    return None


def _nearest(states: Sequence[State], seq: int) -> str:
    """The seqs on either side that would do, in words."""
    fit = [number for number, state in enumerate(states, 1) if _fault(state) is None]
    before, after = [n for n in fit if n < seq][-1:], [n for n in fit if n > seq][:1]
    return f"it can at {' and '.join(map(str, (*before, *after)))}" if before or after else "start a new run instead"
