"""Which child belongs to which visit, and what a child has to give. Reads; judges nothing."""

from __future__ import annotations

from bext_workflow.core.forks import undo_target
from bext_workflow.core.state import Branch, State, visit_key
from bext_workflow.model.json import EMPTY, Document, JsonObject, dumps, same_json


def child_key(state: State, branch: Branch) -> str:
    """The start key of the branch's child: that of the visit; a retry by a person makes another child."""
    key = visit_key(state.run_id, branch.step, branch.visit, branch.place)
    return key if branch.attempt == 1 else f"{key}~{branch.attempt}"


def undone_child(state: State) -> str | None:
    """The child whose undo is next, or under way; None if what is undone is a step of the plugin's."""
    entry = undo_target(state)
    return None if entry is None else entry.child


def result_of(state: State) -> Document:
    """What this run, a child, has to give to its parent: what it has set beyond the context that it began with."""
    given = state.given
    result: JsonObject = {
        key: value
        for key, value in state.context.to_dict().items()
        if key not in given or not same_json(given[key], value)
    }
    return Document(dumps(result), result) if result else EMPTY
