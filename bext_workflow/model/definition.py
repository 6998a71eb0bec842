"""The shape of a workflow: data that a plugin declares and a config may overlay (semantics §2, §10)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.graph_rules import following_names, graph_faults, only_on_items, successors
from bext_workflow.model.json import JsonObject, dumps
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.step import StepDefinition, declared_next, error_names, graph_of
from bext_workflow.model.wait import WaitDefinition

__all__ = ["StepDefinition", "WorkflowDefinition", "error_names", "read_definition", "write_definition"]


class WorkflowDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Id, version and steps in order; `timeout_ms` bounds a whole run (0: no bound).

    Raises `DefinitionError` for a graph that cannot be run.
    """

    id: str
    version: int = 1
    steps: tuple[StepDefinition, ...]
    description: str = ""
    timeout_ms: int = 0
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
        return following_names(self.steps)

    @cached_property
    def only_on_items(self) -> frozenset[str]:
        """The steps that a run may not be sent to by hand: they work on an item of a map."""
        return only_on_items(self.steps)

    @cached_property
    def sub_workflows(self) -> tuple[str, ...]:
        """The workflows that steps of this one are runs of."""
        return tuple(dict.fromkeys(step.workflow for step in self.steps if step.workflow is not None))

    @cached_property
    def asked(self) -> dict[str, WaitDefinition]:
        """The declared waits, by the name of their signal; what they ask is the same for all of one name."""
        return {step.wait.signal: step.wait for step in self.steps if step.wait is not None}

    @cached_property
    def beats(self) -> bool:
        """Whether a step of it sends heartbeats."""
        return any(step.heartbeat_ms for step in self.steps)

    @cached_property
    def approvals(self) -> frozenset[str]:
        """The steps that are approvals."""
        return frozenset(step.name for step in self.steps if step.wait is not None and step.wait.approval is not None)

    @property
    def first(self) -> str:
        """The step that a run begins with."""
        return self.steps[0].name

    def default_next(self, step: str) -> str | tuple[str, ...]:
        """Where a run goes when the outcome names no `next`: a step name, `END`, or several names: a fork."""
        return self.by_name[step].next or self._following[step]

    def targets(self, step: str) -> tuple[str, ...]:
        """Every `next` that an outcome of `step` may choose (semantics §3): declared ones and the following step."""
        declared = self.by_name[step]
        first = declared_next(declared)
        ways = () if declared.wait is None else declared.wait.ways
        return tuple(dict.fromkeys((*first, *declared.branches, *ways, self._following[step])))

    def successors(self, step: str) -> tuple[str, ...]:
        """Every step, or `END`, that may come after `step`: by default, by choice, by time-out, or at a join."""
        return successors(self.by_name[step], self._following)

    @cached_property
    def digest(self) -> str:
        """Names the graph: two definitions with the same digest differ in policy and words only (semantics §10)."""
        return hashlib.sha256(dumps(self.graph())).hexdigest()[:16]

    @cached_property
    def policy(self) -> str:
        """Names all that is said of the workflow, what is no graph too: policy that may move under a live run."""
        return hashlib.sha256(write_definition(self)).hexdigest()[:16]

    def graph(self) -> JsonObject:
        """What a live run depends on: the part of the definition that may not change under one version."""
        return {"id": self.id, "version": self.version, "steps": [graph_of(step) for step in self.steps]}


def write_definition(definition: WorkflowDefinition) -> bytes:
    """The text that stores keep."""
    return msgspec.json.encode(definition)


def read_definition(body: bytes) -> WorkflowDefinition:
    """The definition of a kept text."""
    return msgspec.json.decode(body, type=WorkflowDefinition)


def _with_default_retry_on(step: StepDefinition, default: tuple[str, ...]) -> StepDefinition:
    if step.retry_on is not None or not step.repeatable or not default:
        return step
    return msgspec.structs.replace(step, retry_on=default)


def _faults(definition: WorkflowDefinition) -> Iterator[tuple[str, str]]:
    """Each (fault, mend) that makes the definition unusable."""
    if definition.version < 1:
        yield f"the version is {definition.version}", "versions count from 1"
    if definition.timeout_ms < 0:
        yield f"timeout_ms is {definition.timeout_ms}", "0 means no bound"
    yield from graph_faults(definition.steps)
    yield from _faults_of_signals(definition.steps)


def _faults_of_signals(steps: tuple[StepDefinition, ...]) -> Iterator[tuple[str, str]]:
    """A signal is one thing in the whole workflow: whoever sends it cannot tell which wait will take it."""
    first: dict[str, StepDefinition] = {}
    for step in steps:
        if step.wait is None:
            continue
        other = first.setdefault(step.wait.signal, step).wait
        names = f"steps {first[step.wait.signal].name!r} and {step.name!r} wait for {step.wait.signal!r}"
        if other is not None and other.schema != step.wait.schema:
            yield f"{names}, with different schemas", "state one schema in both, or use two signals"
        if other is not None and (other.approval is None) is not (step.wait.approval is None):
            yield f"{names}, one of them as an approval", "use two signals"
