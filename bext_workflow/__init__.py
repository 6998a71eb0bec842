"""bext-workflow: durable sagas. These are the names for plugin authors; each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bext_workflow.errors import WorkflowError
    from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
    from bext_workflow.model.fork import JoinDefinition, MapDefinition, OnConflict
    from bext_workflow.model.outcome import NotDone, StepOutcome, Unknown
    from bext_workflow.model.policy import OnExhausted, RetryPolicy
    from bext_workflow.model.run import WorkflowRun
    from bext_workflow.model.schedule import CatchUp, Overlap, ScheduleDefinition
    from bext_workflow.model.status import WorkflowStatus
    from bext_workflow.model.wait import ApprovalDefinition, NotBy, WaitDefinition
    from bext_workflow.plugin.markers import hookimpl
    from bext_workflow.plugin.rehearsal import EffectLedger, Rehearsal

__all__ = [
    "ApprovalDefinition",
    "CatchUp",
    "EffectLedger",
    "JoinDefinition",
    "MapDefinition",
    "NotBy",
    "NotDone",
    "OnConflict",
    "OnExhausted",
    "Overlap",
    "Rehearsal",
    "RetryPolicy",
    "ScheduleDefinition",
    "StepDefinition",
    "StepOutcome",
    "Unknown",
    "WaitDefinition",
    "WorkflowDefinition",
    "WorkflowError",
    "WorkflowRun",
    "WorkflowStatus",
    "hookimpl",
]

_HOME = {
    "ApprovalDefinition": "model.wait",
    "CatchUp": "model.schedule",
    "EffectLedger": "plugin.rehearsal",
    "JoinDefinition": "model.fork",
    "MapDefinition": "model.fork",
    "NotBy": "model.wait",
    "NotDone": "model.outcome",
    "OnConflict": "model.fork",
    "OnExhausted": "model.policy",
    "Overlap": "model.schedule",
    "Rehearsal": "plugin.rehearsal",
    "RetryPolicy": "model.policy",
    "ScheduleDefinition": "model.schedule",
    "StepDefinition": "model.definition",
    "StepOutcome": "model.outcome",
    "Unknown": "model.outcome",
    "WaitDefinition": "model.wait",
    "WorkflowDefinition": "model.definition",
    "WorkflowError": "errors",
    "WorkflowRun": "model.run",
    "WorkflowStatus": "model.status",
    "hookimpl": "plugin.markers",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
