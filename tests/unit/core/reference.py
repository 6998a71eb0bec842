"""What a run comes to when nothing dies and nobody meddles, straight down the page.

No events, no state, no clock: lists and loops, to be held against the two texts and semantics §2, §3, §5, §9 by eye.
Doubts are settled by the truth (`verify_step`, else a person who looks it up); other incidents are answered `retry`.
Who is asked for a signal sends it at once or not at all.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from bext_workflow.core.input import Continued, End, Failed, Lost, Parked, Retried
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Call, WorkflowStatus
from bext_workflow.model.wait import WaitDefinition
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
        self.signals = list(script.early)
        self.pivoted = False

    def run(self) -> Expected:
        return Expected(self._forward(), self.context, self.calls)

    def _forward(self) -> WorkflowStatus:
        visits: Counter[str] = Counter()
        name = self.definition.first
        while name != END:
            visits[name] += 1
            step = self.definition.by_name[name]
            way, may_have_acted = (
                self._host_waits(step, visits[name]) if step.hosted else self._step(step, visits[name])
            )
            if isinstance(way, str):
                name = way
                continue
            if not way.compensate:
                return WorkflowStatus.FAILED
            if may_have_acted and step.compensate_on_failure:
                self.completed.append((name, visits[name]))
            self._walk_back()
            return WorkflowStatus.COMPENSATED
        return WorkflowStatus.COMPLETED

    def _step(self, step: StepDefinition, visit: int) -> tuple[str | Failed, bool]:
        """Where the run goes from here, or how it fails, and then whether what has not completed may have acted."""
        end, may_have_acted = self._visit(step, visit)
        if isinstance(end, Failed):
            return end, may_have_acted
        self._complete(step, visit)
        self.context |= end.updates.value
        next_ = end.next if isinstance(end.next, str) else self._after(step)
        if isinstance(end, Continued):
            return next_, False
        wait = WaitDefinition(
            signal=end.signal or "", into=end.into, timeout_ms=end.for_ms or 0, on_timeout=end.on_timeout
        )
        return self._wait(step.name, visit, wait, next_), False

    def _host_waits(self, step: StepDefinition, visit: int) -> tuple[str | Failed, bool]:
        if visit > step.max_visits and not self.pivoted:
            return Failed(reason="too often", compensate=True), False
        next_ = self._after(step)
        way = next_ if step.wait is None else self._wait(step.name, visit, step.wait, next_)
        if isinstance(way, str):
            self._complete(step, visit)
        return way, False

    def _after(self, step: StepDefinition) -> str:
        """Where a sequential run goes by default."""
        (name,) = [self.definition.default_next(step.name)]
        assert isinstance(name, str)
        return name

    def _complete(self, step: StepDefinition, visit: int) -> None:
        self.completed.append((step.name, visit))
        self.pivoted = self.pivoted or step.pivot

    def _wait(self, step: str, visit: int, wait: WaitDefinition, next_: str) -> str | Failed:
        """Where the run goes when the wait is over. Past a pivot a person has it wait until it is not in vain."""
        if not wait.signal:
            return next_
        time = 0
        while True:
            time += 1
            kept = next((signal for signal in self.signals if signal[0] == wait.signal), None)
            payload = self.script.answers(step, visit, time, bounded=wait.timeout_ms > 0)
            if kept is not None:
                self.signals.remove(kept)
                payload = kept[1]
            if payload is not None:
                self.context[wait.into or wait.signal] = payload
                return next_
            if wait.on_timeout is not None:
                return wait.on_timeout
            if not self.pivoted:
                return Failed(reason="in vain", compensate=True)

    def _visit(self, step: StepDefinition, visit: int) -> tuple[Continued | Parked | Failed, bool]:
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
            if isinstance(end, Continued | Parked):
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
        illegal = self.script.illegal(step.name, end)
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
            if not self.definition.by_name[name].hosted:
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
