"""The script of a simulated run: its workflow, and what each call of its plugin does. The seed says it all."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bext_workflow.core.input import Continued, End, Failed, Lost, Parked, Retried
from bext_workflow.core.state import Plan
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.names import END
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.status import Call
from bext_workflow.model.wait import WaitDefinition
from tests.unit.core.support import done, parked

UndoEnd: TypeAlias = Retried | Failed | Lost | None

SIGNALS = ("go", "stop")


class Scene(msgspec.Struct, frozen=True):
    """How one call ends, and whether it has an effect in the world (an unknown end may have one or not)."""

    end: End | None
    acts: bool


class Script:
    """A function of the seed and of (call, step, visit, attempt): the same whatever dies in between.

    `hurried`: the plan with bounds of time, which make a run depend on how long things take. `early`: signals that are
    sent before the run begins.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.plan = _plan(Random(f"{seed} plan"))
        self.hurried = _hurried(self.plan, Random(f"{seed} hurry"))
        self.early = _early(Random(f"{seed} early"))
        self.play = cache(self._play)

    def kills(self, call: Call, step: str, visit: int) -> bool:
        """Whether this call takes its host down, each time that it is made."""
        return Random(f"{self.seed} {call} {step} {visit} kills").random() < 0.02

    def told(self, step: str, visit: int, attempt: int) -> Continued:
        """What the attempt would have returned, in a form that can be used: what verify_step or a person finds out."""
        end = self.play(Call.STEP, step, visit, attempt).end
        if isinstance(end, Continued) and not self.illegal(step, end):
            return end
        return done(**{step: f"{visit}, found"})

    def illegal(self, step: str, end: End | None) -> bool:
        """Whether the outcome names a step that is not declared."""
        named = {getattr(end, "next", None), getattr(end, "on_timeout", None)}
        return not named <= {None, *self.plan.definition.targets(step)}

    def answers(self, step: str, visit: int, time: int, *, bounded: bool) -> str | None:
        """What is sent to the run when it waits at this visit for the n-th time; None: nothing in time."""
        if bounded and Random(f"{self.seed} {step} {visit} {time} answers").random() < 0.4:
            return None
        return f"{step} {visit} {time}"

    def _play(self, call: Call, step: str, visit: int, attempt: int) -> Scene:
        chance = Random(f"{self.seed} {call} {step} {visit} {attempt}")
        drawn = chance.random()
        if drawn < 0.74:
            return Scene(self._success(call, step, visit, attempt, chance), acts=True)
        if drawn < 0.84:
            return Scene(Retried(reason="busy", after_ms=chance.choice([None, 0, 777])), acts=False)
        if drawn < 0.90:
            return Scene(Failed(reason=f"{step} said no", compensate=chance.random() < 0.7), acts=False)
        lost = Lost(reason="gone", transient=chance.random() < 0.6, evidence={"leak": step})
        return Scene(lost, acts=chance.random() < 0.5)

    def _success(self, call: Call, step: str, visit: int, attempt: int, chance: Random) -> Continued | Parked | None:
        if call is not Call.STEP:
            return None
        choices = [None, None, *self.plan.definition.targets(step)]
        chosen = "nowhere" if chance.random() < 0.02 else chance.choice(choices)
        updates = {"last": step, step: visit}
        # Who is asked what became of an attempt in doubt can say what it did, not that the run is to wait.
        if not self.plan.step(step).idempotent or chance.random() < 0.65:
            return done(chosen, undo_data=attempt, **updates)
        signal = chance.choice([None, *SIGNALS])
        for_ms = chance.choice([None, 60, 700]) if signal else chance.choice([60, 700])
        on_timeout = chance.choice([*choices, *["nowhere"] * (chance.random() < 0.05)]) if signal and for_ms else None
        into = chance.choice([None, "note"])
        return parked(
            signal, for_ms=for_ms, into=into, next=chosen, on_timeout=on_timeout, undo_data=attempt, updates=updates
        )


def _plan(chance: Random) -> Plan:
    return Plan(
        definition=_definition(chance),
        undoes=chance.random() < 0.85,
        verifies=chance.random() < 0.4,
        notifies=chance.random() < 0.4,
    )


def _hurried(plan: Plan, chance: Random) -> Plan:
    elapsed = chance.choice([0, 0, 150])
    steps = tuple(
        replace(step, retries=replace(step.retries, max_elapsed_ms=elapsed)) for step in plan.definition.steps
    )
    bound = chance.choice([0, 0, 300, 1500])
    return replace(plan, definition=replace(plan.definition, steps=steps, timeout_ms=bound))


def _early(chance: Random) -> list[tuple[str, str]]:
    """(name, payload) of each."""
    return [(chance.choice(SIGNALS), f"early {n}") for n in range(chance.choice([0, 0, 1, 2]))]


def _definition(chance: Random) -> WorkflowDefinition:
    names = list("abcdef")[: chance.randint(1, 6)]
    branches = {name: tuple(chance.sample([*names, END], 1)) if chance.random() < 0.3 else () for name in names}
    waits = {name: _wait(chance, names) for name in names if chance.random() < 0.12}
    chosen = {target for targets in branches.values() for target in targets}
    chosen |= {wait.on_timeout for wait in waits.values() if wait.on_timeout}
    following = dict(pairwise(names))
    return WorkflowDefinition(
        id="simulated",
        steps=tuple(
            StepDefinition(
                name=name,
                retries=_policy(chance),
                idempotent=chance.random() < 0.6,
                # A step that is only reached by choice is not fallen into.
                next=following[name] if following.get(name) in chosen else None,
                branches=branches[name],
                compensation_retries=_policy(chance),
                compensate_on_failure=chance.random() < 0.3,
                undo_idempotent=chance.random() < 0.8,
                pivot=chance.random() < 0.12,
                wait=waits.get(name),
                sleep_ms=chance.choice([60, 700]) if name not in waits and chance.random() < 0.07 else 0,
                max_visits=3,
            )
            for name in names
        ),
    )


def _wait(chance: Random, names: list[str]) -> WaitDefinition:
    bound = chance.choice([0, 60, 700])
    late = chance.choice([None, *names, END]) if bound else None
    into = chance.choice([None, "note"])
    return WaitDefinition(signal=chance.choice(SIGNALS), into=into, timeout_ms=bound, on_timeout=late)


def _policy(chance: Random) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=chance.randint(1, 3),
        backoff_ms=chance.choice([0, 100]),
        jitter=chance.choice([0.0, 0.5]),
        on_exhausted=chance.choice(list(OnExhausted)),
    )
