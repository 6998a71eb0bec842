"""The shape of a workflow: data that a plugin declares and a config may overlay (semantics §2, §10)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.json import JsonObject, dumps
from bext_workflow.model.names import END, NAME_RULE, is_name
from bext_workflow.model.policy import DEFAULT_COMPENSATION_RETRIES, RetryPolicy

TRANSIENT_ERRORS = frozenset({"builtins.TimeoutError", "builtins.ConnectionError"})
"""Exceptions that are retried without being named in `retry_on` (semantics §2)."""


def error_names(error: BaseException) -> frozenset[str]:
    """The bare and dotted names of an exception's class and all its bases: what `retry_on` is matched against."""
    classes = type(error).__mro__
    return frozenset(c.__name__ for c in classes) | {f"{c.__module__}.{c.__qualname__}" for c in classes}


class StepDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named unit of work and how the host treats it.

    `timeout_ms` bounds one attempt (0: no bound). `next` replaces the fall-through to the following step; `branches`
    are the further names that an outcome may choose. `retry_on` of None takes the workflow's.
    """

    name: str
    description: str = ""
    retries: RetryPolicy = RetryPolicy()
    retry_on: tuple[str, ...] | None = None
    idempotent: bool = True
    timeout_ms: int = 60_000
    next: str | None = None
    branches: tuple[str, ...] = ()
    compensation_retries: RetryPolicy = DEFAULT_COMPENSATION_RETRIES
    compensate_on_failure: bool = False
    undo_idempotent: bool = True
    pivot: bool = False
    max_visits: int = 10_000

    def __post_init__(self) -> None:
        if not is_name(self.name) or self.name == END:
            raise DefinitionError(f"{self.name!r} cannot name a step", mend=f'use {NAME_RULE}; "{END}" is reserved')
        if self.retry_on and not self.idempotent:
            raise DefinitionError(
                f"step {self.name!r} has retry_on and idempotent = false",
                mend="an unknown end of a step that is not idempotent is never retried: drop one of the two",
            )
        if self.timeout_ms < 0:
            raise DefinitionError(f"step {self.name!r}: timeout_ms is {self.timeout_ms}", mend="0 means no bound")
        if self.max_visits < 1:
            raise DefinitionError(f"step {self.name!r}: max_visits is {self.max_visits}", mend="at least 1")

    def should_retry(self, error: BaseException, attempt: int) -> bool:
        """Whether another attempt follows when `error` ended number `attempt` (semantics §2, §3)."""
        return self.idempotent and attempt < self.retries.max_attempts and self.is_transient(error_names(error))

    def is_transient(self, names: Collection[str]) -> bool:
        """Whether an error with these class names (see `error_names`) is worth another attempt."""
        wanted = TRANSIENT_ERRORS.union(self.retry_on or ())
        return not wanted.isdisjoint(names)


class WorkflowDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Id, version and steps in order. Raises `DefinitionError` for a graph that cannot be run."""

    id: str
    version: int = 1
    steps: tuple[StepDefinition, ...]
    description: str = ""
    retry_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise DefinitionError(f"{self.id!r} cannot name a workflow", mend=f"use {NAME_RULE}")
        for fault, mend in _faults(self):
            raise DefinitionError(f"workflow {self.id!r} version {self.version}: {fault}", mend=mend)
        resolved = tuple(_with_default_retry_on(step, self.retry_on) for step in self.steps)
        msgspec.structs.force_setattr(self, "steps", resolved)

    @cached_property
    def by_name(self) -> dict[str, StepDefinition]:
        return {step.name: step for step in self.steps}

    @cached_property
    def _following(self) -> dict[str, str]:
        names = [step.name for step in self.steps]
        return dict(zip(names, [*names[1:], END], strict=True))

    @property
    def first(self) -> str:
        """The step that a run begins with."""
        return self.steps[0].name

    def default_next(self, step: str) -> str:
        """Where a run goes when the outcome names no `next`: a step name or `END`."""
        return self.by_name[step].next or self._following[step]

    def targets(self, step: str) -> tuple[str, ...]:
        """Every `next` that an outcome of `step` may choose (semantics §3): declared ones and the following step."""
        declared = self.by_name[step]
        first = (declared.next,) if declared.next else ()
        return tuple(dict.fromkeys((*first, *declared.branches, self._following[step])))

    @cached_property
    def digest(self) -> str:
        """Names the graph: two definitions with the same digest differ in policy and words only (semantics §10)."""
        return hashlib.sha256(dumps(self.graph())).hexdigest()[:16]

    def graph(self) -> JsonObject:
        """What a live run depends on: the part of the definition that may not change under one version."""
        return {"id": self.id, "version": self.version, "steps": [_graph_of(step) for step in self.steps]}


def write_definition(definition: WorkflowDefinition) -> bytes:
    """The text that stores keep."""
    return msgspec.json.encode(definition)


def read_definition(body: bytes) -> WorkflowDefinition:
    """The definition of a kept text."""
    return msgspec.json.decode(body, type=WorkflowDefinition)


def _graph_of(step: StepDefinition) -> JsonObject:
    graph: JsonObject = {"name": step.name}
    if step.next is not None:
        graph["next"] = step.next
    if step.branches:
        graph["branches"] = sorted(step.branches)
    flags = {
        "idempotent": (step.idempotent, True),
        "pivot": (step.pivot, False),
        "compensate_on_failure": (step.compensate_on_failure, False),
        "undo_idempotent": (step.undo_idempotent, True),
    }
    graph.update({name: value for name, (value, default) in flags.items() if value is not default})
    return graph


def _with_default_retry_on(step: StepDefinition, default: tuple[str, ...]) -> StepDefinition:
    if step.retry_on is not None or not step.idempotent or not default:
        return step
    return msgspec.structs.replace(step, retry_on=default)


def _faults(definition: WorkflowDefinition) -> Iterator[tuple[str, str]]:
    """Each (fault, mend) that makes the graph unusable."""
    names = [step.name for step in definition.steps]
    if definition.version < 1:
        yield f"the version is {definition.version}", "versions count from 1"
    if not names:
        yield "it has no steps", "name at least one"
    for name in names:
        if names.count(name) > 1:
            yield f"step {name!r} stands twice", "step names are unique in a workflow"
    chosen = {target for step in definition.steps for target in step.branches}
    for step, following in zip(definition.steps, [*names[1:], None], strict=True):
        for target in (step.next, *step.branches):
            if target not in (None, END, *names):
                yield f"step {step.name!r} goes to {target!r}, which is not a step", f'use one of {names} or "{END}"'
        if step.next is None and following in chosen:
            yield (
                f"step {step.name!r} would fall through into {following!r}, which is only reached by choice",
                f"give {step.name!r} a next",
            )
