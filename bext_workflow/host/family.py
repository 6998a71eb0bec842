"""Who belongs to a run that is driven alone: its sub-workflows, theirs, and so on (semantics §11)."""

from __future__ import annotations

from bext_workflow.model.event import ChildStarted
from bext_workflow.model.journal import decode
from bext_workflow.ports.store import Store


async def descendants(store: Store, run_id: str) -> set[str]:
    """The ids of the runs that were started in a run, at any depth.

    A run that waits for its child is not due, so its driver cannot tell. A child of which a crash has left no word in
    its parent's journal is not among them: there the parent is due, and finds it.
    """
    found, to_read = set[str](), [run_id]
    while to_read:
        children = await _children(store, to_read.pop()) - found
        found |= children
        to_read += children
    return found


async def _children(store: Store, run_id: str) -> set[str]:
    children = set[str]()
    for row in await store.find(run_id, limit=1):
        loaded = await store.load(row.rid)
        for event in (decode(one.kind, one.data) for one in loaded.events):
            if isinstance(event, ChildStarted):
                children.add(event.run_id)
    return children
