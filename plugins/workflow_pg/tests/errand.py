"""A plugin of functions for hosts in the process of a test: what its runs do stands in their context."""

from __future__ import annotations

from collections import Counter, defaultdict

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.plugin.registry import Registry
from tests.integration.host.support import plugin, registry, workflow


class Errand:
    """`errand` packs and ships, or gives up (`fails`) when it ships; `question` waits for the signal `go` first."""

    def __init__(self) -> None:
        self.made: dict[str, list[str]] = defaultdict(list)
        """The calls of each run, in order."""
        self.served: Registry = registry(
            plugin(
                self.run_step,
                workflow("pack", "ship", id_="errand"),
                workflow("ask", "ship", id_="question"),
                compensate_step=self.compensate_step,
            )
        )

    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.made[run.run_id].append(step_name)
        if step_name == "ask":
            return StepOutcome.Wait(signal="go")
        if step_name == "ship" and run.context.get("fails"):
            return StepOutcome.Fail("it gives up", compensate=True)
        return StepOutcome.Continue({step_name: run.context.get("text", "done")})

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.made[run.run_id].append(f"undo of {step_name}")

    def repeated(self) -> dict[str, list[str]]:
        """The runs that called something twice."""
        return {run_id: made for run_id, made in self.made.items() if max(Counter(made).values()) > 1}
