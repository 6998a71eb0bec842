"""Whether transactional steps can be what they claim: in one transaction with their checkpoint (semantics §6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bext_workflow.plugin.registry import Isolation, Registry, Served
from bext_workflow.ports.store import Store
from bext_workflow.ports.transactional import Transactional


class TransactionFault(NamedTuple):
    """A workflow whose transactional steps cannot be driven here, why, and what to do."""

    where: str
    reason: str
    mend: str


def transaction_faults(registry: Registry, store: Store) -> Iterator[TransactionFault]:
    """One for each workflow that is served and has transactional steps which could not be."""
    for (workflow, version), served in registry.served.items():
        names = ", ".join(step.name for step in served.definition.steps if step.transactional)
        if names and (fault := _fault(served, store)) is not None:
            reason, mend = fault
            yield TransactionFault(f"{workflow}@{version}", f"transactional steps ({names}): {reason}", mend)


def _fault(served: Served, store: Store) -> tuple[str, str] | None:
    plugin = served.plugin
    if plugin.isolation is not Isolation.INLINE:
        return (
            f"plugin {plugin.name!r} runs in processes of its own, and a transaction is the host's",
            'take out isolation = "process", or state transactional = false',
        )
    if not plugin.run_step.is_async:
        return f"run_step of plugin {plugin.name!r} is no `async def`", "write it as one: a transaction is awaited"
    if not isinstance(store, Transactional):
        return (
            "the store is no database that steps could write to",
            'use store = "postgresql://…", or state transactional = false',
        )
    return None
