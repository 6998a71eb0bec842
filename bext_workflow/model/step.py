"""One step of a workflow: data that a plugin declares and a config may overlay (semantics §2, §10)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END, NAME_RULE, is_name
from bext_workflow.model.policy import DEFAULT_COMPENSATION_RETRIES, RetryPolicy
from bext_workflow.model.wait import WaitDefinition, wait_fault

TRANSIENT_ERRORS = frozenset({"builtins.TimeoutError", "builtins.ConnectionError"})
"""Exceptions that are retried without being named in `retry_on` (semantics §2)."""


def error_names(error: BaseException) -> frozenset[str]:
    """The bare and dotted names of an exception's class and all its bases: what `retry_on` is matched against."""
    classes = type(error).__mro__
    return frozenset(c.__name__ for c in classes) | {f"{c.__module__}.{c.__qualname__}" for c in classes}


class StepDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named unit of work and how the host treats it.

    `timeout_ms` bounds one attempt (0: no bound); in a step that states `heartbeat_ms`, each heartbeat moves its end to
    so much later, at least. `next` replaces the fall-through to the following step; `branches` are the further names
    that an outcome may choose. `retry_on` of None takes the workflow's. `transactional`: the step acts by
    `run.transaction()` alone, so that it has acted if, and only if, its checkpoint is there. `workflow`: the step is a
    run of that workflow, a child of this one.
    """

    name: str
    description: str = ""
    retries: RetryPolicy = RetryPolicy()
    retry_on: tuple[str, ...] | None = None
    idempotent: bool = True
    transactional: bool = False
    timeout_ms: int = 60_000
    heartbeat_ms: int = 0
    next: str | tuple[str, ...] | None = None
    join: JoinDefinition | None = None
    map: MapDefinition | None = None
    branches: tuple[str, ...] = ()
    compensation_retries: RetryPolicy = DEFAULT_COMPENSATION_RETRIES
    compensate_on_failure: bool = False
    undo_idempotent: bool = True
    pivot: bool = False
    wait: WaitDefinition | None = None
    sleep_ms: int = 0
    workflow: str | None = None
    max_visits: int = 10_000

    def __post_init__(self) -> None:
        if not is_name(self.name) or self.name == END:
            raise DefinitionError(f"{self.name!r} cannot name a step", mend=f'use {NAME_RULE}; "{END}" is reserved')
        if self.retry_on and not self.repeatable:
            raise DefinitionError(
                f"step {self.name!r} has retry_on and idempotent = false",
                mend="an unknown end of a step that is not idempotent is never retried: drop one of the two",
            )
        if self.timeout_ms < 0:
            raise DefinitionError(f"step {self.name!r}: timeout_ms is {self.timeout_ms}", mend="0 means no bound")
        if self.heartbeat_ms < 0:
            raise DefinitionError(f"step {self.name!r}: heartbeat_ms is {self.heartbeat_ms}", mend="0 means none")
        if self.sleep_ms < 0:
            raise DefinitionError(f"step {self.name!r}: sleep_ms is {self.sleep_ms}", mend="a wait is 0 or more ms")
        if self.wait is not None and self.sleep_ms:
            raise DefinitionError(f"step {self.name!r} states wait and sleep_ms", mend="use wait.timeout_ms alone")
        if self.wait is not None and (fault := wait_fault(self.wait)) is not None:
            raise DefinitionError(f"step {self.name!r}: {fault}")
        if self.workflow is not None and (fault := _child_fault(self)) is not None:
            raise DefinitionError(f"step {self.name!r}: {fault}")
        if self.max_visits < 1:
            raise DefinitionError(f"step {self.name!r}: max_visits is {self.max_visits}", mend="at least 1")

    @property
    def repeatable(self) -> bool:
        """Whether an attempt of which nothing is known may be made again."""
        return self.idempotent or self.transactional

    @property
    def waits(self) -> bool:
        """Whether the step does nothing but wait: there is nothing to undo of it."""
        return self.wait is not None or self.sleep_ms > 0

    @property
    def hosted(self) -> bool:
        """Whether the host itself does the step: there is no `run_step`, and no undo but a child's (semantics §7)."""
        return self.waits or self.workflow is not None

    def should_retry(self, error: BaseException, attempt: int) -> bool:
        """Whether another attempt follows when `error` ended number `attempt` (semantics §2, §3)."""
        return self.repeatable and attempt < self.retries.max_attempts and self.is_transient(error_names(error))

    def is_transient(self, names: Collection[str]) -> bool:
        """Whether an error with these class names (see `error_names`) is worth another attempt."""
        wanted = TRANSIENT_ERRORS.union(self.retry_on or ())
        return not wanted.isdisjoint(names)


def graph_of(step: StepDefinition) -> JsonObject:
    """What a live run depends on of the step."""
    graph: JsonObject = {"name": step.name}
    if step.next is not None:
        graph["next"] = step.next
    if step.branches:
        graph["branches"] = sorted(step.branches)
    if step.wait is not None:
        graph["wait"] = {"signal": step.wait.signal, "into": step.wait.into, "on_timeout": step.wait.on_timeout}
        if step.wait.approval is not None:
            graph["approval"] = {"on_reject": step.wait.approval.on_reject}
    if step.sleep_ms:
        graph["sleep"] = True
    if step.workflow is not None:
        graph["workflow"] = step.workflow
    if step.join is not None:
        graph["join"] = msgspec.to_builtins(step.join)
    if step.map is not None:
        graph["map"] = msgspec.to_builtins(step.map)
    flags = {
        "idempotent": (step.idempotent, True),
        "transactional": (step.transactional, False),
        "pivot": (step.pivot, False),
        "compensate_on_failure": (step.compensate_on_failure, False),
        "undo_idempotent": (step.undo_idempotent, True),
    }
    graph.update({name: value for name, (value, default) in flags.items() if value is not default})
    return graph


def _child_fault(step: StepDefinition) -> str | None:
    """What is wrong with a step that is a run of another workflow; None if nothing is."""
    if step.workflow is not None and not is_name(step.workflow):
        return f"{step.workflow!r} cannot name a workflow: use {NAME_RULE}"
    if step.waits:
        return "it states workflow and a wait: wait in a step of its own"
    return None


def declared_next(step: StepDefinition) -> tuple[str, ...]:
    """The names that `next` states: none, one, or those of a fork."""
    if step.next is None:
        return ()
    return (step.next,) if isinstance(step.next, str) else step.next
