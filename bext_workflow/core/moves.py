"""How branches move: into a step, apart at a fork, together at a join, and to their end (semantics §7).

All of it follows from the state and the event alone, so that a fold always moves them alike.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from bext_workflow.core.forks import is_loser, losers
from bext_workflow.core.state import Branch, Group, Phase, State
from bext_workflow.model.context import Layers
from bext_workflow.model.event import JoinDecided, JoinOpened
from bext_workflow.model.fork import Fork, OnConflict, arrivals_needed
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END
from bext_workflow.model.wait import WaitFor

Changes: TypeAlias = dict[str, object]
"""New values of fields of `State`."""


def changed(branches: tuple[Branch, ...], id_: int, **changes: object) -> tuple[Branch, ...]:
    """The branches, with new values for one of them."""
    return tuple(replace(branch, **changes) if branch.id == id_ else branch for branch in branches)


def of_branch(state: State, id_: int, **changes: object) -> Changes:
    """New values for one branch, and nothing else."""
    return {"branches": changed(state.branches, id_, **changes)}


def parked(state: State, branch: int, wait: WaitFor) -> Changes:
    """The branch waits, since the event that comes."""
    return of_branch(state, branch, phase=Phase.WAITING, wait=wait, wait_opened=state.seq + 1)


def written(state: State, branch: Branch, updates: JsonObject) -> Changes:
    """The updates in the branch's context: its own one, or the run's."""
    if branch.context is None:
        return {"context": state.context.merged(updates)}
    context, since = branch.context.merged(updates), branch.written.merged(updates)
    return {"branches": changed(state.branches, branch.id, context=context, written=since)}


def moved_on(state: State, branch_id: int, next_: str, fork: Fork | None, at: int) -> Changes:
    """The branch has done with its step: it forks, arrives at its join, ends, or enters the next step."""
    branch = state.branch(branch_id)
    if is_loser(state, branch):
        return {"branches": changed(state.branches, branch_id, phase=Phase.STOPPED, wait=None)}
    if fork is not None:
        return _forked(state, branch, next_, fork, at)
    if branch.group is not None and next_ in (END, state.group(branch.group).at):
        return _arrived(state, branch, state.group(branch.group), at)
    if next_ == END:
        return {"branches": tuple(other for other in state.branches if other.id != branch_id)}
    return entered(state, branch_id, next_, at)


def entered(state: State, branch_id: int, step: str, at: int) -> Changes:
    """The branch stands at a new visit of `step`."""
    old = state.branch(branch_id)
    visit, visits = _counted(state.visits, step, old.place)
    fresh = Branch(
        id=branch_id,
        step=step,
        visit=visit,
        entered_at=at,
        group=old.group,
        place=old.place,
        index=old.index,
        item_group=old.item_group,
        context=old.context,
        written=old.written,
    )
    return {"branches": tuple(fresh if other.id == branch_id else other for other in state.branches), "visits": visits}


def join_decided(state: State, event: JoinDecided, at: int) -> Changes:
    """Who has not arrived yet is a loser, and items that have not begun never will."""
    group = state.group(event.group)
    return {"groups": _changed_group(state, replace(group, decided=True, lost=losers(state, group)))}


def join_opened(state: State, event: JoinOpened, at: int) -> Changes:
    """The fork is over: its branches are gone and their line goes on."""
    group = state.group(event.group)
    gone = losers(state, group)
    rest = tuple(branch for branch in state.branches if branch.id not in gone)
    inner = tuple(other for other in state.groups if other.id != group.id and other.parent not in gone)
    contexts = kept_contexts(state, tuple(branch for branch in state.branches if branch.id in gone))
    left = {other.id for other in inner}
    undo = None if state.undo is not None and state.undo.group not in left else state.undo
    after = replace(state, branches=rest, groups=inner, contexts=contexts, undo=undo)
    changes: Changes = {"branches": rest, "groups": inner, "contexts": contexts, "undo": undo}
    merged = written(after, after.branch(group.parent), event.updates.value)
    after = replace(after, **merged)
    return changes | merged | moved_on(after, group.parent, event.next, None, at)


def kept_contexts(state: State, branches: tuple[Branch, ...]) -> Layers:
    """The contexts of branches that are about to go: their undo sees them."""
    own = {str(branch.id): branch.context for branch in branches if branch.context is not None}
    return state.contexts.merged(own)


def _forked(state: State, parent: Branch, next_: str, fork: Fork, at: int) -> Changes:
    step = state.plan.step(parent.step)
    count = len(fork.into) if fork.items is None else fork.items
    group = Group(
        id=state.seq + 1,
        parent=parent.id,
        at=next_,
        need=arrivals_needed(step.join.need if step.join is not None else "all", count),
        merge_last=step.join is not None and step.join.on_conflict is OnConflict.LAST,
        members=tuple(range(state.next_branch, state.next_branch + count)),
        begun=count if step.map is None else min(count, step.map.max_concurrency),
        into=fork.into if step.map is None or fork.items is None else (step.map.at,),
        over=None if step.map is None or fork.items is None else step.map.over,
        collect=None if step.map is None else step.map.collect,
    )
    still = changed(state.branches, parent.id, phase=Phase.FORKED, wait=None)
    after = replace(state, branches=still, groups=(*state.groups, group), next_branch=state.next_branch + count)
    for index in range(group.begun):
        after = _begun(after, group, index, at)
    return {
        "branches": after.branches,
        "groups": after.groups,
        "next_branch": after.next_branch,
        "visits": after.visits,
        "places": after.places,
    }


def _begun(state: State, group: Group, index: int, at: int) -> State:
    """The state with one more branch of the group under way."""
    parent = state.branch(group.parent)
    mapped = group.over is not None
    place = f"{parent.place}[{index}]" if mapped else parent.place
    step = group.into[0] if mapped else group.into[index]
    visit, visits = _counted(state.visits, step, place)
    branch = Branch(
        id=group.members[index],
        step=step,
        visit=visit,
        entered_at=at,
        group=group.id,
        place=place,
        index=index if mapped else parent.index,
        item_group=group.id if mapped else parent.item_group,
        context=state.context_of(parent.id),
    )
    places = state.places.merged({str(branch.id): place}) if place else state.places
    return replace(state, branches=(*state.branches, branch), visits=visits, places=places)


def _arrived(state: State, branch: Branch, group: Group, at: int) -> Changes:
    """The branch waits at its join, as an entry of its group; in a map, the next item may begin."""
    mine = {str(branch.id): branch.written.to_dict()}
    there = replace(group, arrived=(*group.arrived, branch.id), written=group.written.merged(mine))
    after = replace(
        state,
        branches=tuple(other for other in state.branches if other.id != branch.id),
        contexts=kept_contexts(state, (branch,)),
    )
    if state.stop is None:
        after, there = _filled(after, there, at)
    return {
        "branches": after.branches,
        "groups": _changed_group(state, there),
        "contexts": after.contexts,
        "visits": after.visits,
        "places": after.places,
    }


def refilled(state: State, at: int) -> State:
    """The state with every map going on that had come to a standstill under a stop."""
    for group in state.groups:
        state, there = _filled(state, group, at)
        state = replace(state, groups=_changed_group(state, there))
    return state


def _filled(state: State, group: Group, at: int) -> tuple[State, Group]:
    """State and group with as many further items begun as there is room for; a decided join has no need of more."""
    map_ = state.plan.step(state.branch(group.parent).step).map
    if map_ is None or group.decided or is_loser(state, state.branch(group.parent)):
        return state, group
    begun = min(len(group.members), len(group.arrived) + map_.max_concurrency)
    for index in range(group.begun, begun):
        state = _begun(state, group, index, at)
    return state, replace(group, begun=max(begun, group.begun))


def _changed_group(state: State, group: Group) -> tuple[Group, ...]:
    return tuple(group if other.id == group.id else other for other in state.groups)


def _counted(visits: Layers, step: str, place: str) -> tuple[int, Layers]:
    visit = visits.get(step + place, 0) + 1
    return visit, visits.merged({step + place: visit})
