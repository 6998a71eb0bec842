"""A plugin for histories of days: it notes each effect and undo, durable, in the order in which they happen.

Context: `fail_at` is the item whose `send` fails, once the others that are to be done have been.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from bext_workflow import StepOutcome, WorkflowRun, hookimpl

EFFECTS = Path("effects.jsonl")


def note(what: str, run: WorkflowRun) -> None:
    line = json.dumps({"what": what, "step": run.step, "item": run.item, "key": run.idempotency_key})
    with EFFECTS.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def effects() -> list[dict[str, object]]:
    return [json.loads(line) for line in EFFECTS.read_text(encoding="utf-8").splitlines()] if EFFECTS.exists() else []


class Plugin:
    @hookimpl
    def name(self) -> str:
        return "days"

    @hookimpl
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        if step_name == "split":
            return StepOutcome.Continue({"parcels": list(range(run.context["count"]))})
        if step_name == "send" and run.item == run.context["fail_at"]:
            while len({one["item"] for one in effects() if one["what"] == "done"}) < run.context["before"]:
                time.sleep(0.01)
            time.sleep(0.3)  # the checkpoints of the others are on their way; the failing one is to be the last
            return StepOutcome.Fail("lost on the way", compensate=True)
        note("done", run)
        if run.context.get("fails") == step_name:
            return StepOutcome.Fail("no", compensate=True)
        return StepOutcome.Continue({f"{step_name}_done": True})

    @hookimpl
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        note("undone", run)
        while Path("hold").exists():
            time.sleep(0.01)


plugin = Plugin()
