"""Every path of a workflow, and on each of them every fault at every call; pairs of faults as far as a budget goes."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain

from bext_workflow.errors import UsageError
from bext_workflow.model.status import Call
from bext_workflow.service.proof import Broken, Coverage, Explored, ExploredPath, Proof, ProofOptions
from bext_workflow.testing.prover.faults import FAULTS, ON_WAIT, Case, Choice, Fault, FaultKind, Path, read_case
from bext_workflow.testing.prover.judge import judge
from bext_workflow.testing.prover.play import play
from bext_workflow.testing.prover.played import Made, Played
from bext_workflow.testing.prover.subject import Subject

MAX_PATHS = 200
"""More ways through a workflow than this are refused: give contexts, and fewer branches to the prover."""

_VISITS = 2
"""How often the prover sends a run to one step, of its own accord."""


async def explore(subject: Subject, options: ProofOptions) -> Proof:
    """The proof of a workflow. Raises `UsageError` for a rehearsal, or a case, that cannot be played."""
    began = time.perf_counter()
    exploration = _Exploration(subject)
    if options.replay is not None:
        await exploration.replay(read_case(options.replay))
    else:
        await exploration.explore(options.budget)
    return exploration.proof(round((time.perf_counter() - began) * 1000))


class _Exploration:
    """What has been explored so far."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._baselines: list[Played] = []
        self._singles: list[tuple[Played, Played]] = []
        self._explored = {what: Counter[str]() for what in ("steps", "undos", "waits", "endings")}
        self._effects: set[str] = set()
        self._undone: set[str] = set()
        self._stays: set[str] = set()
        self._broken: dict[tuple[str, str], Broken] = {}
        self._story: list[str] = []
        self._pairs = self._pairs_there = self._runs = 0

    async def explore(self, budget: int) -> None:
        await self._find_paths()
        for baseline in self._baselines:
            await self._explore_sites(baseline, "steps", FAULTS[Call.STEP], baseline.sites(Call.STEP))
            await self._explore_undos(baseline)
            await self._explore_sites(baseline, "waits", ON_WAIT, baseline.waits)
            await self._explore_sites(baseline, "endings", FAULTS[Call.COMPLETE], baseline.sites(Call.COMPLETE))
        await self._explore_pairs(budget)

    async def replay(self, case: Case) -> None:
        baseline = await self._play(Case(case.path), None)
        self._baselines.append(baseline)
        self._story = list((await self._play(case, baseline) if case.faults else baseline).story)

    # Paths

    async def _find_paths(self) -> None:
        with self._subject.rehearsal() as rehearsal:
            contexts = rehearsal.contexts
        if not contexts:
            raise UsageError("the rehearsal has no contexts", mend='start runs with something: contexts={"order": {…}}')
        waiting = deque(Path(context) for context in contexts)
        known: set[tuple[str, ...]] = set()
        while waiting:
            path = waiting.popleft()
            baseline = await self._play(Case(path), None)
            if path.choices and baseline.trail in known:
                continue
            known.add(baseline.trail)
            self._baselines.append(baseline)
            if len(self._baselines) > MAX_PATHS:
                raise UsageError(f"{self._subject.workflow} has more than {MAX_PATHS} paths", mend="take branches out")
            waiting += _others(baseline)

    # Faults

    async def _explore_undos(self, baseline: Played) -> None:
        """An undo is reached by a cancel during its step: that completes, and then it is undone first."""
        cancelled = {
            played.case.faults[0].site: played
            for played, of in self._singles
            if of is baseline and played.case.faults[0].kind is FaultKind.CANCEL
        }
        for site, played in cancelled.items():
            undo = f"{site}:compensate"
            if undo in played.sites(Call.UNDO):
                cancel = Fault(site, FaultKind.CANCEL)
                await self._explore_sites(baseline, "undos", FAULTS[Call.UNDO], [undo], after=cancel)

    async def _explore_sites(
        self,
        baseline: Played,
        what: str,
        kinds: Sequence[FaultKind],
        sites: Sequence[str],
        *,
        after: Fault | None = None,
    ) -> None:
        counted = self._explored[what]
        for site in sites:
            counted["sites"] += 1
            for fault in (Fault(site, kind) for kind in kinds):
                if not _can_happen(baseline, fault):
                    counted["impossible"] += 1
                    continue
                faults = (fault,) if after is None else (after, fault)
                played = await self._play(Case(baseline.case.path, faults), baseline)
                counted["runs"] += 1
                if after is None:
                    self._singles.append((played, baseline))

    async def _explore_pairs(self, budget: int) -> None:
        pairs = list(chain.from_iterable(_pairs(played, baseline) for played, baseline in self._singles))
        self._pairs_there = len(pairs)
        # The same budget explores the same pairs each time, spread over all of them.
        for case, baseline in random.Random(budget).sample(pairs, min(budget, len(pairs))):
            await self._play(case, baseline)
            self._pairs += 1

    async def _play(self, case: Case, baseline: Played | None) -> Played:
        played = await play(self._subject, case)
        self._runs += 1
        self._cover(played)
        for wrong in judge(played, baseline or played):
            broken = Broken(
                promise=wrong.promise,
                where=wrong.where,
                message=wrong.message,
                case=str(case),
                faults=len(case.faults),
                story=list(played.story),
            )
            known = self._broken.get((wrong.promise, wrong.where))
            if known is None or _length(broken) < _length(known):
                self._broken[wrong.promise, wrong.where] = broken
        return played

    def _cover(self, played: Played) -> None:
        by_name = {name: effect for effect in played.effects for name in (effect.key, effect.id)}
        to_be_undone = {(made.site, made.number) for made in played.calls if _can_be_undone(played, made)}
        self._stays |= played.stays
        for effect in played.effects:
            if effect.what in played.stays:
                continue
            if effect.undoes is None and (effect.site, effect.call) in to_be_undone:
                self._effects.add(_named(effect.site, effect.what))
            done = by_name.get(effect.undoes or "")
            if done is not None and effect.takes_back(done):
                self._undone.add(_named(done.site, done.what))

    def proof(self, took_ms: int) -> Proof:
        definition = self._baselines[0].definition
        return Proof(
            workflow=definition.id,
            version=definition.version,
            paths=[ExploredPath(name=str(one.case.path), steps=one.sites(Call.STEP)) for one in self._baselines],
            steps=self._explored_of("steps", FAULTS[Call.STEP]),
            undos=self._explored_of("undos", FAULTS[Call.UNDO]),
            waits=self._explored_of("waits", ON_WAIT),
            endings=self._explored_of("endings", FAULTS[Call.COMPLETE]),
            pairs=self._pairs,
            pairs_there=self._pairs_there,
            runs=self._runs,
            took_ms=took_ms,
            coverage=self._coverage(),
            broken=sorted(self._broken.values(), key=_length),
            story=self._story,
        )

    def _coverage(self) -> Coverage:
        undone = self._undone & self._effects
        return Coverage(
            percent=100 * len(undone) / len(self._effects) if self._effects else 100.0,
            effects=sorted(self._effects),
            undone=sorted(undone),
            stays=sorted(self._stays),
        )

    def _explored_of(self, what: str, kinds: Sequence[FaultKind]) -> Explored:
        counted = self._explored[what]
        return Explored(
            sites=counted["sites"], faults=len(kinds), impossible=counted["impossible"], runs=counted["runs"]
        )


def _others(baseline: Played) -> Iterator[Path]:
    """The paths that leave this one at a point behind the last choice of the prover's own."""
    path, made = baseline.case.path, [chosen.taken.site for chosen in baseline.chosen]
    last = max((made.index(choice.site) for choice in path.choices if choice.site in made), default=-1)
    visits = Counter(site.partition("#")[0] for site in baseline.sites(Call.STEP))
    for chosen in baseline.chosen[last + 1 :]:
        for way in chosen.others:
            if visits[way] < _VISITS:
                yield Path(path.context, (*path.choices, Choice(chosen.taken.site, way)))


def _can_happen(baseline: Played, fault: Fault) -> bool:
    """A call without a time-out never times out."""
    step = baseline.step_of(fault.site)
    return fault.kind is not FaultKind.TIME_OUT or step is None or step.timeout_ms > 0


def _pairs(played: Played, baseline: Played) -> Iterator[tuple[Case, Played]]:
    """A second fault at each call that comes after the first one, at another site; with a wait, at each call."""
    (first,) = played.case.faults
    begun = first.site.endswith(":wait")
    seen: set[str] = set()
    for made in played.calls:
        begun = begun or made.site == first.site
        if not begun or made.site == first.site or made.site in seen:
            continue
        seen.add(made.site)
        for kind in FAULTS[made.kind]:
            second = Fault(made.site, kind)
            if _can_happen(baseline, second):
                yield Case(played.case.path, (first, second)), baseline


def _length(broken: Broken) -> tuple[int, int]:
    return broken.faults, len(broken.story)


def _can_be_undone(played: Played, made: Made) -> bool:
    """Whether the call is of a step, and no pivot had completed before."""
    pivots = {step.name for step in played.definition.steps if step.pivot}
    passed = [e.at for e in played.durable if e.kind == "step_completed" and e.site.partition("#")[0] in pivots]
    return made.kind is Call.STEP and made.at < min(passed, default=made.at + 1)


def _named(site: str, what: str) -> str:
    """The effect of a step, whatever the visit and the item."""
    return f"{site.partition('#')[0].partition('[')[0]}: {what}"
