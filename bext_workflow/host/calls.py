"""The calls of one run's plugin: which hook, with what snapshot, for how long, and what its end means for the run."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from bext_workflow.core.input import Continued, End, Finished, Input, Late, Lost, Notified, Parked, Undone, Verified
from bext_workflow.core.state import State, visit_key
from bext_workflow.core.work import Compensate, Execute, Notify, Verify
from bext_workflow.errors import DefinitionError
from bext_workflow.host import invoke, snapshot
from bext_workflow.host.progress import Progress
from bext_workflow.host.pulse import Pulse, Unstated
from bext_workflow.host.shop import Shop
from bext_workflow.host.text import describe
from bext_workflow.host.threads import Visit
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import dumps
from bext_workflow.model.outcome import Unknown
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Call
from bext_workflow.model.transaction import Transact
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin

PluginCall: TypeAlias = Execute | Compensate | Verify | Notify


class Calls:
    """Makes one run's calls, for the state that its progress has."""

    def __init__(self, shop: Shop, plugin: Plugin, progress: Progress, context_bytes: int) -> None:
        self._shop = shop
        self._plugin = plugin
        self._progress = progress
        self._context_bytes = context_bytes
        self._child_endings = progress.state.child_endings

    def hook(self, action: PluginCall) -> Hook | None:
        """What the plugin has for the call."""
        match action:
            case Execute():
                return self._plugin.run_step
            case Compensate():
                return self._plugin.compensate_step
            case Verify():
                return self._plugin.verify_step
            case Notify():
                return self._plugin.on_workflow_complete

    def visit(self, action: PluginCall) -> Visit:
        """What may not be called twice at a time."""
        state = self._progress.state
        if isinstance(action, Notify):
            return state.run_id, "", action.n
        return state.run_id, action.step + snapshot.place_of(state, action), action.visit

    def transacts(self, action: PluginCall) -> bool:
        """Whether the call is to have a transaction."""
        return isinstance(action, Execute) and self._progress.state.plan.step(action.step).transactional

    def timeout_ms(self, action: Execute) -> int:
        """What one attempt may take; 0: no bound, or none that is known beforehand."""
        step = self._progress.state.plan.step(action.step)
        return 0 if step.heartbeat_ms else step.timeout_ms

    def prepare(self, action: PluginCall, hook: Hook, transact: Transact | None = None) -> invoke.Call:
        """The call, with the run as it is now."""
        state, pulse, beat = self._progress.state, None, None
        timeout_ms = invoke.COMPLETION_TIMEOUT_MS
        if not isinstance(action, Notify):
            step = state.plan.step(action.step)
            timeout_ms, pulse = step.timeout_ms, self._pulse(state, step, action)
            beat = Unstated(step.name) if pulse is None else pulse.beat
        place = snapshot.place_of(state, action)
        mint = partial(self._token, state, action.key, place)
        run = snapshot.of(state, action, mint=mint, beat=beat, transact=transact)
        return invoke.Call(
            plugin=self._plugin.name,
            hook=hook,
            run=run,
            timeout_ms=timeout_ms,
            handle=invoke.Handle(),
            on_late=partial(self._told_late, kind_of(action), place, run),
            place=place,
            pulse=pulse,
        )

    async def make(self, action: PluginCall, call: invoke.Call) -> Input:
        """Calls the plugin; what its word means for the run."""
        invoker, limit = self._shop.invoker, self._shop.context_bytes
        match action:
            case Execute():
                end = await invoker.step(call, max_bytes=limit)
                detail = None if call.pulse is None else call.pulse.news()
                return Finished(branch=action.branch, end=self._within_limit(action.branch, end, call), detail=detail)
            case Compensate():
                return Undone(await invoker.undo(call))
            case Verify():
                answer = await invoker.verify(call, max_bytes=limit)
                if isinstance(answer, Continued | Parked) and isinstance(
                    self._within_limit(action.branch, answer, call), Lost
                ):
                    answer = Unknown()
                return Verified(call=action.call, branch=action.branch, answer=answer)
            case Notify():
                return Notified(n=action.n, error=await invoker.complete(call))

    def _pulse(self, state: State, step: StepDefinition, action: PluginCall) -> Pulse | None:
        """What takes the call's heartbeats; of an undo, and of `verify_step`, nobody keeps the detail."""
        if not step.heartbeat_ms:
            return None
        known = state.branch(action.branch).detail if isinstance(action, Execute) else None
        return Pulse(self._shop.clock, self._shop.deadlines, step.heartbeat_ms, known)

    def _token(self, state: State, key: str, place: str, step: str | None) -> str:
        """The wait token of the visit with that key, or of the next visit of `step` at the same place."""
        if step is None:
            return self._shop.mint(key)
        if step not in state.plan.definition.by_name:
            raise DefinitionError(f"workflow {state.workflow!r} has no step {step!r}", mend="name one of its steps")
        visit: int = state.visits.get(step + place, 0) + 1
        return self._shop.mint(visit_key(state.run_id, step, visit, place))

    def _told_late(self, call: Call, place: str, run: WorkflowRun, result: object, error: BaseException | None) -> None:
        evidence = {"late": True, "returned": describe(result)}
        if error is not None:
            evidence = {"late": True, "raised": describe(error)}
        late = Late(
            act=0, call=call, place=place, step=run.step, visit=run.visit, attempt=run.attempt, evidence=evidence
        )
        self._shop.late(run.run_id, late)

    def _within_limit(self, branch: int, end: End, call: invoke.Call) -> End:
        """Refuses updates that would make the context too large. The running sum only ever overstates the size.

        It does not see what children have given: after the end of one, the size is measured.
        """
        if not isinstance(end, Continued | Parked):
            return end
        state: State = self._progress.state
        self._context_bytes += len(end.updates.text)
        if self._context_bytes <= self._shop.context_bytes and state.child_endings is self._child_endings:
            return end
        self._child_endings = state.child_endings
        size = len(dumps(state.context_of(branch).merged(end.updates.value).to_dict()))
        if size <= self._shop.context_bytes:
            self._context_bytes = max(size, self._context_bytes // 2)
            return end
        why = f"the context would be {size} bytes of JSON, over the limit of {self._shop.context_bytes}"
        return call.refused(why, end.updates.value)


def kind_of(action: PluginCall) -> Call:
    """Which of the three kinds of call it is."""
    match action:
        case Execute():
            return Call.STEP
        case Compensate():
            return Call.UNDO
        case Verify():
            return action.call
        case Notify():
            return Call.COMPLETE


def without_hook(action: PluginCall) -> Input:
    """What follows where the plugin has no hook for it; `run_step` it always has."""
    match action:
        case Verify():
            return Verified(call=action.call, branch=action.branch, answer=Unknown())
        case Notify():
            return Notified(n=action.n)
        case Execute() | Compensate():
            return Undone()
