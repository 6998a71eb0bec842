"""What `prove` says: how much was explored, what of the effects can be undone, and what is broken."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that a case breaks. `where`: by which call; empty: by the run as a whole.

    `case` is what `--replay` takes; `story` tells it line by line.
    """

    promise: str
    where: str
    message: str
    case: str
    faults: int
    story: list[str]


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of call, or waits: `sites` over all paths, times `faults`, less what is `impossible`, is `runs`.

    Impossible is that a call without a time-out runs out of time.
    """

    sites: int
    faults: int
    impossible: int
    runs: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of steps, and those of them whose undo was seen to work, as names and in percent (of none: 100).

    `stays`: the effects that are not to be undone.
    """

    percent: float
    effects: list[str]
    undone: list[str]
    stays: list[str]


class ProofOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`budget`: how many pairs of faults are explored besides. `replay`: this case alone."""

    budget: int = 0
    replay: str | None = None


class ExploredPath(msgspec.Struct, frozen=True, kw_only=True):
    """A way through the workflow: its name in a case, and the steps that are called on it."""

    name: str
    steps: list[str]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """All that was explored of one workflow. `pairs_there`: how many pairs of faults there are.

    `broken` holds the shortest case of each promise and call, the shortest of all first. `story`: of a case that was
    replayed.
    """

    workflow: str
    version: int
    paths: list[ExploredPath]
    steps: Explored
    undos: Explored
    waits: Explored
    endings: Explored
    pairs: int
    pairs_there: int
    runs: int
    took_ms: int
    coverage: Coverage
    broken: list[Broken]
    story: list[str] = []

    @property
    def holds(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(proof: Proof) -> Iterator[str]:
    verdict = "holds" if proof.holds else f"does not hold: {_counted(len(proof.broken), 'broken promise')}"
    yield f"{proof.workflow}@{proof.version} {verdict}"
    if proof.story:
        yield from (f"  {line}" for line in proof.story)
    else:
        yield from _explored(proof)
    for number, broken in enumerate(proof.broken):
        yield f"{broken.promise}: {f'{broken.where} ' if broken.where else ''}{broken.message}"
        yield f"  replay {broken.case}"
        if number == 0 and not proof.story:
            yield from (f"  {line}" for line in broken.story)


def _explored(proof: Proof) -> Iterator[str]:
    for path in proof.paths:
        yield f"  path     {path.name}: {' → '.join(path.steps)}"
    yield f"  explored {_counted(proof.runs, 'run')} in {proof.took_ms / 1000:.1f} s"
    kinds = (("step", proof.steps), ("undo", proof.undos), ("wait", proof.waits), ("ending", proof.endings))
    for what, explored in kinds:
        if not explored.sites:
            continue
        less = f" - {explored.impossible} without a time-out" if explored.impossible else ""
        product = f"{_counted(explored.sites, what)} × {explored.faults} faults{less}"
        yield f"           {product} = {explored.runs}"
    yield f"           pairs of faults: {proof.pairs} of {proof.pairs_there}"
    coverage = proof.coverage
    yield f"  undone   {len(coverage.undone)} of {_counted(len(coverage.effects), 'effect')}, {coverage.percent:.0f} %"
    missing = [effect for effect in coverage.effects if effect not in coverage.undone]
    if missing:
        yield f"           never undone: {', '.join(missing)}"
    if coverage.stays:
        yield f"           to stay: {', '.join(coverage.stays)}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
