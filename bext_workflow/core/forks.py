"""Forks in the state: who belongs to whom, and what is to be undone for a join to open. Reads; judges nothing."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core.state import Branch, Group, State
from bext_workflow.model.json import Json
from bext_workflow.model.run import Completed, newest_first


def losers(state: State, group: Group) -> frozenset[int]:
    """The branches of a group that have not arrived, with all that have forked from them."""
    if group.decided:
        return group.lost
    lost = set(group.members) - set(group.arrived)
    while True:
        further = {member for inner in state.groups if inner.parent in lost for member in inner.members} - lost
        if not further:
            return frozenset(lost)
        lost |= further


def is_loser(state: State, branch: Branch) -> bool:
    """Whether the branch is to settle because a join around it has been decided without it."""
    return bool(state.groups) and any(branch.id in group.lost for group in state.groups)


def forked_from(state: State, branch_id: int) -> Group | None:
    """The fork at which the branch stands still, if it does."""
    return next((group for group in state.groups if group.parent == branch_id), None)


def item_of(state: State, branch: Branch) -> Json:
    """What the branch works on, in a map; None elsewhere. It is the state's own, and not to be changed."""
    if branch.item_group is None or branch.index is None:
        return None
    group = state.group(branch.item_group)
    return state.context_of(group.parent).get(group.over or "")[branch.index]


def undo_target(state: State) -> Completed | None:
    """The entry that is undone next: the newest one, or the newest of a decided group's losers."""
    if state.undo is None or state.undo.group is None:
        return state.pending
    return newest_of(state, state.group(state.undo.group))


def newest_of(state: State, group: Group) -> Completed | None:
    """The newest entry of the losers of a group."""
    lost = losers(state, group)
    return next((entry for entry in newest_first(state.pending) if entry.branch in lost), None)


def without(pending: Completed | None, target: Completed) -> Completed | None:
    """The list without one entry of it."""
    if pending is target or pending is None:
        return target.before
    kept = []
    for entry in newest_first(pending):
        if entry is target:
            break
        kept.append(entry)
    rest = target.before
    for entry in reversed(kept):
        rest = replace(entry, before=rest)
    return rest
