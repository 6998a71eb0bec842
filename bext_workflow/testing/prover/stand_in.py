"""What stands before a plugin's hooks while it is proven: it lets the faults of a case happen, and watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NoReturn, Protocol, assert_never

from msgspec.structs import replace

from bext_workflow.errors import Conflict, WorkflowError
from bext_workflow.model.definition import WorkflowDefinition, error_names
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Call
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin
from bext_workflow.plugin.rehearsal import PERFORMING, EffectLedger
from bext_workflow.testing.prover.faults import Case, Choice, Fault, FaultKind
from bext_workflow.testing.prover.played import Chosen, Made, Wrong
from bext_workflow.testing.prover.store import Checkpoint
from bext_workflow.testing.prover.subject import Subject


class Sabotage(Exception):
    """What a call is made to raise."""


class Scene(Protocol):
    """What can be done to the run from within a call."""

    def die(self) -> None:
        """The host is dead from here on."""

    def die_at(self, checkpoint: Checkpoint, *, durable: bool) -> None:
        """The host dies when it makes the checkpoint."""

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """Raises `Conflict`."""

    async def be_superseded(self, checkpoint: Checkpoint) -> None:
        """Another host takes the run over; returns when it has made the checkpoint."""

    async def real(self, hook: Hook, run: WorkflowRun, *step: str) -> object:
        """Calls the plugin itself."""


class StandIn:
    """Of one case, over all the hosts that play in it."""

    def __init__(
        self, case: Case, subject: Subject, ledger: EffectLedger, scene: Scene, tell: Callable[[str], int]
    ) -> None:
        self._workflow = subject.workflow
        self._without_undo = subject.without_undo
        self._ledger = ledger
        self._scene = scene
        self._tell = tell
        self._faults = {fault.site: fault for fault in case.faults}
        self._ways = {choice.site: choice.way for choice in case.path.choices}
        self._numbers: Counter[str] = Counter()
        self._definitions: dict[tuple[str, int], WorkflowDefinition] = {}
        self.calls: list[Made] = []
        self.chosen: list[Chosen] = []
        self.wrongs: list[Wrong] = []
        self.late: list[asyncio.Event] = []
        """Set when a call is over whose host has lost its lease."""
        self.cancelled = False

    def before(self, plugin: Plugin) -> Plugin:
        """The plugin, with this before its hooks."""
        self._definitions |= {(own.id, own.version): own for own in plugin.definitions}
        undo, complete, verify = plugin.compensate_step, plugin.on_workflow_complete, plugin.verify_step
        return replace(
            plugin,
            run_step=self._stand_in(Call.STEP, plugin.run_step),
            compensate_step=None if undo is None else self._stand_in(Call.UNDO, undo),
            on_workflow_complete=None if complete is None else self._stand_in(Call.COMPLETE, complete),
            verify_step=None if verify is None else Hook(partial(self._verify, verify), is_async=True),
        )

    def disarm(self) -> None:
        """No fault happens any more."""
        self._faults.clear()

    def fault_at(self, site: str) -> FaultKind | None:
        """What is to happen at a wait, once."""
        fault = self._faults.pop(site, None)
        if fault is not None:
            self._tell(f"fault    {fault}")
        return None if fault is None else fault.kind

    def way_of(self, site: str) -> str | None:
        """Where the case sends the run from there."""
        return self._ways.get(site)

    def _stand_in(self, kind: Call, hook: Hook) -> Hook:
        async def call(run: WorkflowRun, *step: str) -> object:
            made = self._begin(kind, run)
            token = PERFORMING.set((made.site, made.number))
            try:
                return await self._act(made, run, partial(self._real, made, hook, run, *step))
            finally:
                PERFORMING.reset(token)

        return Hook(call, is_async=True)

    async def _verify(self, hook: Hook, run: WorkflowRun, step: str) -> object:
        self._tell(f"call     verify_step {self.site_of(run)}")
        return await self._scene.real(hook, run, step)

    def _begin(self, kind: Call, run: WorkflowRun) -> Made:
        site = self.site_of(run)
        self._numbers[site] += 1
        number = self._numbers[site]
        what = {Call.STEP: "run_step", Call.UNDO: "compensate_step", Call.COMPLETE: "on_workflow_complete"}[kind]
        at = self._tell(f"call     {what} {site}, attempt {run.attempt}")
        made = Made(at=at, site=site, kind=kind, step=run.step, visit=run.visit, number=number)
        self.calls.append(made)
        return made

    def site_of(self, run: WorkflowRun) -> str:
        """What the call's idempotency key says besides the run."""
        site = run.idempotency_key.removeprefix(f"{run.run_id}:")
        return site if run.workflow == self._workflow else f"{run.workflow}/{site}"

    def _due(self, made: Made) -> Fault | None:
        fault = self._faults.get(made.site)
        if fault is None or (made.number > 1 and fault.kind is not FaultKind.RETRIES_EXHAUSTED):
            return None
        self._tell(f"fault    {fault}")
        return fault

    async def _act(self, made: Made, run: WorkflowRun, act: Callable[[], Awaitable[object]]) -> object:
        """What the plugin's call comes to; `act` makes it."""
        fault = self._due(made)
        match None if fault is None else fault.kind:
            case None:
                return await act()
            case FaultKind.FAIL:
                return StepOutcome.Fail("the prover lets it fail", compensate=True)
            case FaultKind.RETRY_ONCE | FaultKind.RETRIES_EXHAUSTED:
                return _busy(made)
            case FaultKind.RAISE | FaultKind.CRASH_BEFORE_EFFECT as kind:
                return await self._broken_off(kind)
            case FaultKind.RAISE_AFTER_EFFECT | FaultKind.TIME_OUT | FaultKind.CRASH_AFTER_EFFECT as kind:
                await act()
                return await self._broken_off(kind)
            case FaultKind.CRASH_BEFORE_CHECKPOINT | FaultKind.CRASH_AFTER_CHECKPOINT as kind:
                self._scene.die_at(_checkpoint(made), durable=kind is FaultKind.CRASH_AFTER_CHECKPOINT)
            case FaultKind.CANCEL:
                await self.cancel(run.run_id, now=False)
            case FaultKind.LOST_LEASE:
                return await self._late(made, act)
            case FaultKind.CANCEL_NOW:
                given = await act()
                return await _never() if await self.cancel(run.run_id, now=True) else given
            case never:
                assert_never(never)
        return await act()

    async def _late(self, made: Made, act: Callable[[], Awaitable[object]]) -> object:
        over = asyncio.Event()
        self.late.append(over)
        try:
            await self._scene.be_superseded(_checkpoint(made))
            self._tell("late     the call of the host that lost its lease goes on")
            return await act()
        finally:
            over.set()

    async def _broken_off(self, kind: FaultKind) -> NoReturn:
        """The call does not return."""
        if kind in (FaultKind.RAISE, FaultKind.RAISE_AFTER_EFFECT):
            raise Sabotage("the prover raises")
        if kind is not FaultKind.TIME_OUT:
            self._scene.die()
        await _never()

    async def cancel(self, run_id: str, *, now: bool) -> bool:
        """Whether it was accepted."""
        try:
            await self._scene.cancel(run_id, now=now)
        except Conflict as conflict:
            self._tell(f"refused  {conflict.message}")
            return False
        self.cancelled = True
        return True

    async def _real(self, made: Made, hook: Hook, run: WorkflowRun, *step: str) -> object:
        """The plugin's own call; what it must never do is taken down."""
        if made.kind is Call.UNDO and made.step == self._without_undo:
            return None
        definition, before = self._definitions[run.workflow, run.version], repr(dict(run.context))
        try:
            given = await self._scene.real(hook, run, *step)
        except Exception as error:
            if not _is_allowed(error, definition, made):
                self.wrongs.append(Wrong("raises", made.site, f"raised {type(error).__name__}: {error}"))
            self._tell_effects(made, run)
            self._tell(f"raised   {type(error).__name__}: {error}")
            raise
        self._tell_effects(made, run)
        if repr(dict(run.context)) != before:
            why = "changed run.context, and the change is lost: return it as an update"
            self.wrongs.append(Wrong("context-mutated", made.site, why))
        return self._sent(made, definition, given) if made.kind is Call.STEP else given

    def _tell_effects(self, made: Made, run: WorkflowRun) -> None:
        for effect in self._ledger.effects:
            if (effect.site, effect.call) == (made.site, made.number):
                key = (effect.undoes or effect.key).removeprefix(f"{run.run_id}:")
                what = f"takes back {effect.what} of" if effect.undoes else f"does {effect.what} with the key"
                self._tell(f"effect   {what} {key}")

    def _sent(self, made: Made, definition: WorkflowDefinition, given: object) -> object:
        """The outcome, with the way that the case says in place of the plugin's."""
        if not isinstance(given, StepOutcome.Continue | StepOutcome.Wait) or not definition.by_name[made.step].branches:
            return given
        default = definition.default_next(made.step)
        own = given.next if isinstance(given.next, str) else default
        ways = dict.fromkeys((*definition.by_name[made.step].branches, *_names(default)))
        taken = self.way_of(made.site) or (own if isinstance(own, str) else "")
        self.chosen.append(Chosen(Choice(made.site, taken), tuple(way for way in ways if way != taken)))
        return given if taken == own or not taken else replace(given, next=taken)


def _names(way: str | tuple[str, ...]) -> Iterator[str]:
    if isinstance(way, str):
        yield way


def _busy(made: Made) -> object:
    if made.kind is Call.STEP:
        return StepOutcome.Retry(reason="the prover lets the service be busy")
    raise ConnectionError("the prover lets the service be busy")


async def _never() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("it went on")


def _checkpoint(made: Made) -> Checkpoint:
    return Checkpoint(step=made.step, visit=made.visit)


def _is_allowed(error: Exception, definition: WorkflowDefinition, made: Made) -> bool:
    """Whether the host reads it as an end that the plugin means: a `WorkflowError`, or one worth another attempt."""
    if isinstance(error, WorkflowError):
        return made.kind is Call.STEP or error.retryable
    if made.kind is Call.COMPLETE:
        return isinstance(error, ConnectionError | TimeoutError)
    return definition.by_name[made.step].is_transient(error_names(error))
