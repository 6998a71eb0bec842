"""The script of a simulated run: its workflow, and what each call of its plugin does. The seed says it all."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random
from typing import TypeAlias

import msgspec

from bext_workflow.core.input import Continued, End, Failed, Lost, Retried
from bext_workflow.core.state import Plan
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.names import END
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.status import Call
from tests.unit.core.support import done

UndoEnd: TypeAlias = Retried | Failed | Lost | None


class Scene(msgspec.Struct, frozen=True):
    """How one call ends, and whether it has an effect in the world (an unknown end may have one or not)."""

    end: End | None
    acts: bool


class Script:
    """A function of the seed and of (call, step, visit, attempt): the same whatever dies in between."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.plan = _plan(Random(f"{seed} plan"))
        self.play = cache(self._play)

    def kills(self, call: Call, step: str, visit: int) -> bool:
        """Whether this call takes its host down, each time that it is made."""
        return Random(f"{self.seed} {call} {step} {visit} kills").random() < 0.02

    def told(self, step: str, visit: int, attempt: int) -> Continued:
        """What the attempt would have returned, in a form that can be used: what verify_step or a person finds out."""
        end = self.play(Call.STEP, step, visit, attempt).end
        if isinstance(end, Continued) and end.next in (None, *self.plan.definition.targets(step)):
            return end
        return done(**{step: f"{visit}, found"})

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

    def _success(self, call: Call, step: str, visit: int, attempt: int, chance: Random) -> Continued | None:
        if call is not Call.STEP:
            return None
        choices = [None, None, *self.plan.definition.targets(step)]
        chosen = "nowhere" if chance.random() < 0.02 else chance.choice(choices)
        return done(chosen, undo_data=attempt, last=step, **{step: visit})


def _plan(chance: Random) -> Plan:
    return Plan(
        definition=_definition(chance),
        undoes=chance.random() < 0.85,
        verifies=chance.random() < 0.4,
        notifies=chance.random() < 0.4,
    )


def _definition(chance: Random) -> WorkflowDefinition:
    names = list("abcdef")[: chance.randint(1, 6)]
    branches = {name: tuple(chance.sample([*names, END], 1)) if chance.random() < 0.3 else () for name in names}
    chosen = {target for targets in branches.values() for target in targets}
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
                pivot=chance.random() < 0.07,
                max_visits=3,
            )
            for name in names
        ),
    )


def _policy(chance: Random) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=chance.randint(1, 3),
        backoff_ms=chance.choice([0, 100]),
        jitter=chance.choice([0.0, 0.5]),
        on_exhausted=chance.choice(list(OnExhausted)),
    )
