"""What a run comes to when nothing dies and nobody meddles, straight down the page.

No events, no state, no clock: lists and loops, to be held against the two texts and semantics §2, §3, §5 by eye. Doubts
are settled by the truth (`verify_step`, else a person who looks it up); every other incident is answered `retry`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from bext_workflow.core.input import Continued, End, Failed, Lost, Retried
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Call, WorkflowStatus
from tests.unit.core.script import Scene, Script


class Expected(msgspec.Struct):
    status: WorkflowStatus
    context: JsonObject
    calls: list[tuple[Call, str, int, int]]
    """Each call as (call, step, visit, attempt), in order; `on_workflow_complete` is left out."""


class Reference:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.definition = script.plan.definition
        self.context: JsonObject = {}
        self.calls: list[tuple[Call, str, int, int]] = []
        self.completed: list[tuple[str, int]] = []
        self.pivoted = False

    def run(self) -> Expected:
        return Expected(self._forward(), self.context, self.calls)

    def _forward(self) -> WorkflowStatus:
        visits: Counter[str] = Counter()
        name = self.definition.first
        while name != END:
            visits[name] += 1
            step = self.definition.by_name[name]
            end, may_have_acted = self._visit(step, visits[name])
            match end:
                case Continued():
                    self.completed.append((name, visits[name]))
                    self.context |= end.updates.value
                    self.pivoted = self.pivoted or step.pivot
                    name = end.next or self.definition.default_next(name)
                case Failed(compensate=False):
                    return WorkflowStatus.FAILED
                case Failed():
                    if may_have_acted and step.compensate_on_failure:
                        self.completed.append((name, visits[name]))
                    self._walk_back()
                    return WorkflowStatus.COMPENSATED
        return WorkflowStatus.COMPLETED

    def _visit(self, step: StepDefinition, visit: int) -> tuple[Continued | Failed, bool]:
        """Attempts until one decides, and whether one that did not may have acted."""
        if visit > step.max_visits and not self.pivoted:
            return Failed(reason="too often", compensate=True), False
        may_have_acted = False
        attempt = spent = 0
        while True:
            attempt, spent = attempt + 1, spent + 1
            self.calls.append((Call.STEP, step.name, visit, attempt))
            end = self._settled(step, visit, attempt, self.script.play(Call.STEP, step.name, visit, attempt))
            if isinstance(end, Lost):
                may_have_acted = True
                end = Retried(reason="") if end.transient else Failed(reason="", compensate=True)
            if isinstance(end, Retried) and spent < step.retries.max_attempts:
                continue
            if isinstance(end, Continued):
                return end, may_have_acted
            asked = isinstance(end, Retried) and step.retries.on_exhausted is OnExhausted.INCIDENT
            if asked or self.pivoted:
                spent = 0
                continue
            if isinstance(end, Retried):
                end = Failed(reason="spent", compensate=step.retries.on_exhausted is OnExhausted.COMPENSATE)
            return end, may_have_acted

    def _settled(self, step: StepDefinition, visit: int, attempt: int, scene: Scene) -> End:
        """The end of an attempt; a step that is not idempotent is never left in doubt. A Lost may have acted."""
        end = scene.end
        assert end is not None
        illegal = isinstance(end, Continued) and end.next not in (None, *self.definition.targets(step.name))
        if not illegal and not isinstance(end, Lost):
            return end
        if step.idempotent:
            return Lost(reason="illegal next") if illegal else end
        if scene.acts:
            return self.script.told(step.name, visit, attempt)
        if self.script.plan.verifies:
            return Retried(reason="not done")
        return Failed(reason="a person says that it did not act", compensate=True)

    def _walk_back(self) -> None:
        while self.script.plan.undoes and self.completed:
            name, visit = self.completed[-1]
            self._undo(self.definition.by_name[name], visit)
            self.completed.pop()

    def _undo(self, step: StepDefinition, visit: int) -> None:
        """Calls until one has undone it: what fails for good is retried by a person."""
        attempt = 0
        while True:
            attempt += 1
            self.calls.append((Call.UNDO, step.name, visit, attempt))
            scene = self.script.play(Call.UNDO, step.name, visit, attempt)
            found_out = isinstance(scene.end, Lost) and not step.undo_idempotent and scene.acts
            if scene.end is None or found_out:
                return
