"""What the runs of a simulation do, drawn from a seed: every attempt of every step, every undo, every answer.

It says so by the number of the attempt alone, so that a run comes to the same end whatever happens to its hosts.
"""

from __future__ import annotations

from enum import Enum, auto
from random import Random

import msgspec

from bext_workflow.errors import WorkflowError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.outcome import Outcome, StepOutcome
from bext_workflow.model.policy import RetryPolicy

RUNS = 12
SIGNAL = "answer"


class Scene(Enum):
    """What one attempt does."""

    DONE = auto()
    LATER = auto()
    """It has not acted, and asks for another attempt."""
    TIMES_OUT = auto()
    """It raises what is retried."""
    GIVES_UP = auto()
    GIVES_UP_AND_LEAVES = auto()
    ASKS = auto()
    RESTS = auto()
    ACTS_AND_BREAKS = auto()
    """It has acted, and raises what nobody expects."""
    BREAKS = auto()
    """It raises that before it acts."""

    @property
    def acts(self) -> bool:
        return self in (Scene.DONE, Scene.ASKS, Scene.RESTS, Scene.ACTS_AND_BREAKS)


_PATIENT = RetryPolicy(max_attempts=3, backoff_ms=5, backoff_multiplier=1.0)
_STUBBORN = RetryPolicy(max_attempts=10, backoff_ms=5, backoff_multiplier=1.0)
CHARGE = "charge"
DEFINITION = WorkflowDefinition(
    id="simulated",
    version=1,
    steps=tuple(
        StepDefinition(
            name=name,
            retries=_PATIENT,
            compensation_retries=_STUBBORN,
            idempotent=name != CHARGE,
            compensate_on_failure=False,
        )
        for name in ("draft", "price", CHARGE, "send")
    ),
)

_TRIALS = (Scene.LATER, Scene.TIMES_OUT)
_COMMON: tuple[tuple[Scene, ...], ...] = (
    *[(Scene.DONE,)] * 12,
    *[(trial, Scene.DONE) for trial in _TRIALS],
    (*_TRIALS, Scene.DONE),
    (Scene.TIMES_OUT,),
    (Scene.LATER,),
    (Scene.GIVES_UP,),
    (Scene.GIVES_UP_AND_LEAVES,),
    (Scene.ASKS,),
    (Scene.ASKS,),
    (Scene.RESTS,),
)
_CHARGES: tuple[tuple[Scene, ...], ...] = (
    *[(Scene.DONE,)] * 6,
    (Scene.ACTS_AND_BREAKS,),
    (Scene.BREAKS, Scene.DONE),
    (Scene.LATER, Scene.ACTS_AND_BREAKS),
    (Scene.GIVES_UP,),
)
_UNDOS = (0, 0, 0, 0, 1, 2, 99)
"""How many tries of an undo fail; one with this many never works, and says so."""


class RunScript(msgspec.Struct, frozen=True):
    """What one run does. The last scene of a step is that of all later attempts."""

    scenes: dict[str, tuple[Scene, ...]]
    failing_undos: dict[str, int]
    cancels: bool
    """A person cancels it where it asks; else it is answered."""

    def scene(self, step: str, attempt: int) -> Scene:
        scenes = self.scenes[step]
        return scenes[min(attempt, len(scenes)) - 1]

    def undo(self, step: str, attempt: int) -> None:
        """Raises what that try of the undo raises."""
        failing = self.failing_undos[step]
        if failing == _UNDOS[-1]:
            raise WorkflowError(f"{step} cannot be undone")
        if attempt <= failing:
            raise TimeoutError


def script_of(seed: int) -> list[RunScript]:
    chance = Random(seed)
    names = [step.name for step in DEFINITION.steps]
    return [
        RunScript(
            scenes={name: chance.choice(_CHARGES if name == CHARGE else _COMMON) for name in names},
            failing_undos={name: chance.choice(_UNDOS) for name in names},
            cancels=chance.random() < 0.5,
        )
        for _ in range(RUNS)
    ]


def outcome(scene: Scene, step: str, attempt: int) -> Outcome:
    """What an attempt returns, or raises; one that acted and broke has the outcome of one that is done, if asked."""
    done = {step: attempt}
    match scene:
        case Scene.DONE | Scene.ACTS_AND_BREAKS:
            return StepOutcome.Continue(done)
        case Scene.LATER:
            return StepOutcome.Retry(reason="not yet")
        case Scene.TIMES_OUT:
            raise TimeoutError("no answer")
        case Scene.GIVES_UP | Scene.GIVES_UP_AND_LEAVES:
            return StepOutcome.Fail(f"{step} gives up", compensate=scene is Scene.GIVES_UP)
        case Scene.ASKS:
            return StepOutcome.Wait(signal=SIGNAL, into=f"{step}_answer", context_updates=done)
        case Scene.RESTS:
            return StepOutcome.Wait(for_ms=20, context_updates=done)
        case Scene.BREAKS:
            raise LookupError("it broke before it acted")
