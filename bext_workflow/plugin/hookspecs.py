"""The trait of a plugin (semantics §2), as pluggy hook specifications: signatures only.

Hooks may be `async def` or plain `def`; a plain one that is called for a run works in a thread. An implementation may
take fewer arguments than its specification. Only the plugin that owns a workflow is called for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome, Verdict
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.schedule import ScheduleDefinition
from bext_workflow.plugin.markers import hookspec
from bext_workflow.plugin.rehearsal import Rehearsal


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `configure` learns of its host. `data_dir`: the folder of the store's file, else of the config."""

    data_dir: Path
    store: str


class WorkflowPlugin(Protocol):
    """Every hook. `name`, `definitions` and `run_step` are required, the others default to nothing."""

    @hookspec(firstresult=True)
    def name(self) -> str:
        """The plugin's name; it equals its entry point's."""
        ...

    @hookspec(firstresult=True)
    def definitions(self) -> Sequence[WorkflowDefinition]:
        """The workflows that the plugin brings; the config may overlay them and add others."""
        ...

    @hookspec(firstresult=True)
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        """Does the step's work once. Must be safe to repeat with `run.idempotency_key`, unless it is not idempotent."""
        ...

    @hookspec(firstresult=True)
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        """Undoes a completed step. Must be safe to repeat with `run.idempotency_key`."""

    @hookspec(firstresult=True)
    def on_workflow_complete(self, run: WorkflowRun) -> None:
        """Called at least once for every ending, after the final status is durable."""

    @hookspec(firstresult=True)
    def verify_step(self, run: WorkflowRun, step_name: str) -> Verdict:
        """Asked what became of an attempt in doubt: an outcome, `NotDone()` or `Unknown()`. Must not act."""
        ...

    @hookspec(firstresult=True)
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        """Takes the plugin's own config, `[plugins.config]`, once, before `definitions`. ValueError refuses it."""

    @hookspec(firstresult=True)
    def schedules(self) -> Sequence[ScheduleDefinition]:
        """The schedules that the plugin brings; the config may overlay them and add others."""
        ...

    @hookspec(firstresult=True)
    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Entered before the first call and left after the last one: the place for pools and clients."""
        ...

    @hookspec(firstresult=True)
    def open_store(self, url: str) -> object:
        """A store (see `bext_workflow.ports.store`) for a URL scheme that the plugin serves, or None."""

    @hookspec(firstresult=True)
    def rehearse(self, workflow: str) -> Rehearsal:
        """What `bext-host prove` plays that workflow with: fakes, their ledger, and contexts. New at each call."""
        ...
