"""A plugin as an author writes it: plain and async hooks, an approval, and an undo."""

from __future__ import annotations

from collections.abc import Mapping

from bext_workflow import (
    ApprovalDefinition,
    RetryPolicy,
    StepDefinition,
    StepOutcome,
    WaitDefinition,
    WorkflowDefinition,
    WorkflowError,
    WorkflowRun,
    hookimpl,
)
from bext_workflow.model.json import Json

DAY_MS = 86_400_000

ORDER = WorkflowDefinition(
    id="order",
    steps=(
        StepDefinition(name="reserve", retries=RetryPolicy(max_attempts=3, backoff_ms=60_000, max_backoff_ms=120_000)),
        StepDefinition(
            name="ask",
            wait=WaitDefinition(
                signal="approved",
                timeout_ms=3 * DAY_MS,
                approval=ApprovalDefinition(title="Ship it?"),
            ),
        ),
        StepDefinition(name="ship"),
    ),
)


class Shop:
    """Plain hooks, which are called in threads, but for the last one."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.config: Mapping[str, Json] = {}

    @hookimpl
    def name(self) -> str:
        return "shop"

    @hookimpl
    def configure(self, config: Mapping[str, Json]) -> None:
        self.config = config

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return [ORDER]

    @hookimpl
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.log.append(step_name)
        match step_name:
            case "reserve" if run.context.get("sku") == "none":
                raise WorkflowError("no such thing")
            case "reserve":
                return StepOutcome.Continue({"reservation": run.idempotency_key})
            case "ship":
                return StepOutcome.Continue({"shipped": True})
            case other:
                raise WorkflowError.step_not_found(other)

    @hookimpl
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.log.append(f"undo {step_name} of {run.context['reservation']}")

    @hookimpl
    async def on_workflow_complete(self, run: WorkflowRun) -> None:
        self.log.append(f"complete {run.status}")
