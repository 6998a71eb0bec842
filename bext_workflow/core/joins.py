"""Where branches meet: when a join opens, what it merges, and what its losers had done (semantics §7)."""

from __future__ import annotations

from bext_workflow.core.draft import Draft
from bext_workflow.core.ending import nothing_to_undo
from bext_workflow.core.forks import is_loser, losers, newest_of, undo_target
from bext_workflow.core.incidents import void_of_branches
from bext_workflow.core.state import Branch, Group, Phase, State
from bext_workflow.model.event import JoinDecided, JoinOpened, LosersUndoStarted, StepCompensated
from bext_workflow.model.fork import MapDefinition
from bext_workflow.model.json import Document, Json, JsonObject, dumps, same_json


def next_to_open(draft: Draft) -> Group | None:
    """A group whose join can be opened now. Groups that have just enough arrivals are decided on the way."""
    for group in _met(draft.state):
        if not group.decided and _has_losers(draft.state, group):
            draft.add(JoinDecided(group=group.id))
            void_of_branches(draft, draft.state.group(group.id).lost, "the join was decided without this branch")
    for group in _met(draft.state):
        if _losers_settled(draft.state, group) and _losers_undone(draft, group):
            return group
    return None


def _met(state: State) -> list[Group]:
    """The groups of which enough branches have arrived, where somebody has a use for it and no person is asked yet."""
    enough = (group for group in state.groups if len(group.arrived) >= group.need)
    parents = ((group, state.branch(group.parent)) for group in enough)
    return [group for group, parent in parents if parent.phase is Phase.FORKED and not is_loser(state, parent)]


def open_join(draft: Draft, group: Group, more: JsonObject | None = None) -> None:
    """The branches have met: their line goes on. `more`: what a person has set beyond what they have."""
    updates = merged(draft.state, group) | (more or {})
    draft.add(JoinOpened(group=group.id, updates=Document(dumps(updates), updates), next=group.at))


def merge_fault(state: State, group: Group) -> str | None:
    """Why the branches cannot meet: two of them have set one key to different values, and no rule says which counts."""
    if group.over is not None or group.merge_last:
        return None
    seen: dict[str, tuple[int, Json]] = {}
    for member in _winners(group):
        for key, value in group.written.get(str(member)).items():
            if key in seen and not same_json(seen[key][1], value):
                first = group.into[group.members.index(seen[key][0])]
                second = group.into[group.members.index(member)]
                return (
                    f"the branches that began at {first!r} and {second!r} set {key!r} to different values: "
                    f'let them set different keys, or say on_conflict = "last"'
                )
            seen[key] = (member, value)
    return None


def merged(state: State, group: Group) -> JsonObject:
    """What the branches have set, in the order that the fork named them; a map gathers it in the order of its items."""
    parts: list[JsonObject] = [group.written.get(str(member)) for member in _winners(group)]
    if group.over is not None:
        return {} if group.collect is None else {group.collect: parts}
    return {key: value for part in parts for key, value in part.items()}


def items_fault(draft: Draft, branch: Branch, map_: MapDefinition, updates: JsonObject) -> str | None:
    """Why the map has nothing to go over; None if it has."""
    items = items_of(draft, branch, map_, updates)
    if isinstance(items, list):
        return None
    return f"step {branch.step!r} maps over {map_.over!r}, which is {type(items).__name__}, not a list"


def items_of(draft: Draft, branch: Branch, map_: MapDefinition, updates: JsonObject) -> Json:
    """What the map goes over: in the updates of its step, else in the branch's context."""
    return updates[map_.over] if map_.over in updates else draft.state.context_of(branch.id).get(map_.over)


def losers_walk_on(draft: Draft) -> None:
    """After a loser's entry is off the list: passes over what has nothing to undo."""
    while (entry := undo_target(draft.state)) is not None and nothing_to_undo(draft, entry):
        draft.add(StepCompensated(branch=entry.branch, step=entry.step, visit=entry.visit, no_undo=True))


def _losers_undone(draft: Draft, group: Group) -> bool:
    """Whether nothing of the losers is left to undo; begins with it if no other losers are being undone."""
    if newest_of(draft.state, group) is None and not _own_undo(draft.state, group):
        return True
    if draft.state.undo is not None and undo_target(draft.state) is not None:
        return False
    draft.add(LosersUndoStarted(group=group.id))
    losers_walk_on(draft)
    return newest_of(draft.state, group) is None


def _winners(group: Group) -> list[int]:
    arrived = set(group.arrived[: group.need]) if not group.over else set(group.arrived)
    return [member for member in group.members if member in arrived]


def _has_losers(state: State, group: Group) -> bool:
    lost = losers(state, group)
    return bool(lost) and (any(branch.id in lost for branch in state.branches) or newest_of(state, group) is not None)


def _losers_settled(state: State, group: Group) -> bool:
    lost = losers(state, group)
    return not any(branch.live for branch in state.branches if branch.id in lost)


def _own_undo(state: State, group: Group) -> bool:
    lost = losers(state, group)
    return any(own.branch in lost for own in state.own)


def undoes_losers(state: State) -> bool:
    """Whether losers are being undone; where a person must decide about it, that too comes first."""
    return state.undo is not None and not state.compensating and undo_target(state) is not None
