"""Answers that a test gives in place of a plugin's own code, call by call."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Call
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin
from bext_workflow.testing.clock import FakeClock


async def hang(run: WorkflowRun) -> NoReturn:
    """An answer that never comes: the attempt ends by its time-out."""
    await asyncio.Event().wait()
    raise AssertionError(f"{run.step} went on")


class Scripts:
    """The answers that are still to be given, by call and step.

    An answer is what the hook returns (an outcome, None), an exception that it raises, or a function of the run, plain
    or async, that does either. Calls without one go to the plugin.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._answers: dict[tuple[Call, str], deque[object]] = {}
        self._known: dict[Call, set[str]] = {Call.STEP: set(), Call.UNDO: set(), Call.COMPLETE: set()}

    def add(self, call: Call, step: str, answers: Iterable[object]) -> None:
        """Raises `ValueError` for a call that no plugin would get."""
        if step not in self._known[call]:
            raise ValueError(_unknown(call, step, self._known[call]))
        self._answers.setdefault((call, step), deque()).extend(answers)

    def laid_over(self, plugin: Plugin) -> Plugin:
        """The plugin with these scripts before its hooks. While its own code runs, no time passes."""
        steps = {step.name for own in plugin.definitions for step in own.steps if not step.hosted}
        self._known[Call.STEP] |= steps
        if plugin.compensate_step is not None:
            self._known[Call.UNDO] |= steps
        if plugin.on_workflow_complete is not None:
            self._known[Call.COMPLETE] |= {own.id for own in plugin.definitions}
        return replace(
            plugin,
            run_step=self._scripted(Call.STEP, plugin.run_step),
            compensate_step=self._scripted_or_none(Call.UNDO, plugin.compensate_step),
            on_workflow_complete=self._scripted_or_none(Call.COMPLETE, plugin.on_workflow_complete),
            verify_step=None if plugin.verify_step is None else self._timeless(plugin.verify_step),
        )

    def _scripted_or_none(self, call: Call, hook: Hook | None) -> Hook | None:
        return None if hook is None else self._scripted(call, hook)

    def _timeless(self, hook: Hook) -> Hook:
        return Hook(partial(real, hook, self._clock), is_async=True)

    def _scripted(self, call: Call, hook: Hook) -> Hook:
        async def answer(run: WorkflowRun, *step: str) -> object:
            script = self._answers.get((call, step[0] if step else run.workflow))
            if not script:
                return await real(hook, self._clock, run, *step)
            given = script.popleft()
            if isinstance(given, BaseException):
                raise given
            if not callable(given):
                return given
            made: object = given(run)
            return await made if inspect.isawaitable(made) else made

        return Hook(answer, is_async=True)


async def real(hook: Hook, clock: FakeClock, run: WorkflowRun, *step: str) -> object:
    """Calls the plugin; while its code runs, no time passes."""
    with clock.held():
        if not hook.is_async:
            return await asyncio.to_thread(hook.call, run, *step)
        made = hook.call(run, *step)
        return await made if inspect.isawaitable(made) else made


def _unknown(call: Call, step: str, known: Collection[str]) -> str:
    near = get_close_matches(step, known, n=1)
    if near:
        return f"there is no {step!r}: did you mean {near[0]!r}?"
    return f"nothing is called for {step!r}: there are {', '.join(sorted(known)) or f'no calls of {call.value}'}"
