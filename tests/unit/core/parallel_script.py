"""The script of a simulated run with branches: a random workflow of forks, joins, maps, loops and waits, its plugin.

The seed says it all: what a call does depends on its key and its attempt alone, whatever dies or runs beside it.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from random import Random
from typing import TypeAlias

import msgspec

from bext_workflow.core.input import Continued, End, Failed, Lost, Next, Parked, Retried
from bext_workflow.core.state import Plan
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition, Need, OnConflict
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.status import Call
from bext_workflow.model.wait import WaitDefinition
from tests.unit.core.support import document

SIGNAL = "go"
SHARED = "shared"
"""A key that branches set at times, to the same value or not."""

UndoEnd: TypeAlias = Retried | Failed | Lost | None


class Scene(msgspec.Struct, frozen=True):
    """How one call ends, and whether it has an effect in the world (an unknown end may have one or not)."""

    end: End | None
    acts: bool


class Script:
    """What the plugin does, as a function of the seed and of (call, key, attempt)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = Random(f"{seed} parallel")
        self.trouble = chance.choice([0.0, 0.3, 1.0])
        self.plan = Plan(
            definition=WorkflowDefinition(
                id="parallel",
                steps=tuple(_Builder(chance).workflow()),
                timeout_ms=chance.choice([0, 0, 0, 3_000]),
            ),
            undoes=chance.random() < 0.9,
            verifies=chance.random() < 0.3,
            notifies=chance.random() < 0.3,
        )
        self.play = cache(self._play)

    def kills(self, call: Call, key: str) -> bool:
        """Whether this call takes its host down, each time that it is made."""
        return Random(f"{self.seed} {call} {key} kills").random() < 0.004

    def told(self, step: str, key: str, attempt: int) -> Continued | Parked:
        """What the attempt has done or would have: what verify_step, or a person, finds out."""
        end = self.play(Call.STEP, step, key, attempt).end
        chance = Random(f"{self.seed} {key} {attempt} told")
        return end if isinstance(end, Continued | Parked) else self._success(step, key, attempt, chance)

    def _play(self, call: Call, step: str, key: str, attempt: int) -> Scene:
        chance = Random(f"{self.seed} {call} {key} {attempt}")
        drawn = chance.random() / self.trouble if self.trouble else 1.0
        if drawn >= 0.26:
            success = self._success(step, key, attempt, chance) if call is Call.STEP else None
            return Scene(success, acts=True)
        if drawn >= 0.14:
            return Scene(Retried(reason="busy", after_ms=chance.choice([None, 0, 777])), acts=False)
        if drawn >= 0.09:
            return Scene(Failed(reason=f"{step} said no", compensate=chance.random() < 0.6), acts=False)
        lost = Lost(reason="gone", transient=chance.random() < 0.6, evidence={"leak": step})
        return Scene(lost, acts=chance.random() < 0.5)

    def _success(self, step: str, key: str, attempt: int, chance: Random) -> Continued | Parked:
        definition = self.plan.definition.by_name[step]
        updates: JsonObject = {step: key}
        if definition.map is not None:
            updates[definition.map.over] = [f"{key} {n}" for n in range(chance.choice([0, 1, 2, 3, 4]))]
        if chance.random() < 0.15:
            updates[SHARED] = chance.choice([1, 1, 1, key])
        next_: Next = None
        if definition.next is not None and not isinstance(definition.next, str):
            named = chance.sample(definition.next, chance.randint(1, len(definition.next)))
            next_ = chance.choice([None, tuple(named)])
        elif definition.branches:
            next_ = chance.choice([None, definition.branches[0]])
        if definition.map is None and chance.random() < 0.08:
            waits = {"signal": SIGNAL} if chance.random() < 0.5 else {"for_ms": 300}
            return Parked(updates=document(updates), next=next_, undo_data=key, **waits)
        return Continued(updates=document(updates), next=next_, undo_data=key)


class _Builder:
    """Steps by the dozen. Each states its `next`, so that the list's order means nothing."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._numbers = count()

    def workflow(self) -> list[StepDefinition]:
        steps = self._line(END, depth=0)
        return [self._step(next=steps[0].name, pivot=self._chance.random() < 0.05), *steps]

    def _line(self, after: str, depth: int) -> list[StepDefinition]:
        """A line of steps that comes to `after`; the first of the list is where it begins."""
        steps: list[StepDefinition] = []
        for _ in range(self._chance.randint(1, 2 if depth else 3)):
            steps = [*self._piece(steps[0].name if steps else after, depth), *steps]
        return steps

    def _piece(self, after: str, depth: int) -> list[StepDefinition]:
        drawn = self._chance.random()
        if depth < 2 and drawn < 0.45 - 0.15 * depth:
            return self._fork(after, depth)
        if depth < 2 and drawn < 0.65 - 0.2 * depth:
            return self._map(after, depth)
        if drawn < 0.72:
            return [self._waiting(after)]
        name = self._name()
        loops = (name,) if drawn > 0.94 else ()
        pivot = depth == 0 and self._chance.random() < 0.05
        return [self._step(name, next=after, branches=loops, pivot=pivot)]

    def _fork(self, after: str, depth: int) -> list[StepDefinition]:
        apart = depth == 0 and after == END and self._chance.random() < 0.5
        meet = None if apart else self._step(next=after)
        at = END if meet is None else meet.name
        lines = [self._line(at, depth + 1) for _ in range(self._chance.choice([2, 2, 3]))]
        needs: list[Need] = ["all", "all", "any", 1, 2]
        need = self._chance.choice(needs)
        on_conflict = self._chance.choice(list(OnConflict))
        fork = self._step(
            next=tuple(line[0].name for line in lines),
            join=None if meet is None else JoinDefinition(at=at, need=need, on_conflict=on_conflict),
        )
        if meet is None:
            return [fork, *(step for line in lines for step in line)]
        return [fork, *(step for line in lines for step in line), meet]

    def _map(self, after: str, depth: int) -> list[StepDefinition]:
        meet = self._step(next=after)
        line = self._line(meet.name, depth + 1)
        name = self._name()
        map_ = MapDefinition(
            over=f"{name}_items",
            at=line[0].name,
            join=meet.name,
            max_concurrency=self._chance.randint(1, 3),
            collect=self._chance.choice([None, f"{name}_done"]),
        )
        return [self._step(name, map=map_), *line, meet]

    def _waiting(self, after: str) -> StepDefinition:
        if self._chance.random() < 0.4:
            return StepDefinition(name=self._name(), next=after, sleep_ms=200)
        timeout = self._chance.choice([0, 400])
        late = after if timeout and self._chance.random() < 0.5 and after != END else None
        name = self._name()
        wait = WaitDefinition(signal=SIGNAL, into=name, timeout_ms=timeout, on_timeout=late)
        return StepDefinition(name=name, next=after, wait=wait)

    def _step(self, name: str = "", **fields: object) -> StepDefinition:
        chance = self._chance
        plain = StepDefinition(
            name=name or self._name(),
            retries=self._policy(),
            idempotent=chance.random() < 0.7,
            compensation_retries=self._policy(),
            compensate_on_failure=chance.random() < 0.4,
            undo_idempotent=chance.random() < 0.85,
            max_visits=4,
        )
        return msgspec.structs.replace(plain, **fields)

    def _policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_attempts=self._chance.randint(1, 3),
            backoff_ms=self._chance.choice([0, 100]),
            on_exhausted=self._chance.choice(list(OnExhausted)),
        )

    def _name(self) -> str:
        return f"s{next(self._numbers)}"
