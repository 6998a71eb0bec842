"""What must not grow: the cost of a step by the number of runs in the store, and by the size of the context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import raw
from bench.load import IN_FLIGHT, RUNS, drive
from bench.report import Figure, at_least, plain
from bench.saga import DEFINITION, hosting
from bext_workflow.stores import SqliteStore

FEW, MANY = 1_000, 1_000_000
SMALL, LARGE = "x" * 1_000, "x" * 1_000_000


async def measure(folder: Path, rounds: int) -> Sequence[Figure]:
    """Sagas a second in a store of 10^3 and of 10^6 runs; steps a second at a context of 1 KB and of 1 MB."""
    few = await _rates(folder / "few.db", FEW, rounds)
    many = await _rates(folder / "many.db", MANY, rounds)
    small = await _step_rates(folder / "small.db", SMALL, rounds)
    large = await _step_rates(folder / "large.db", LARGE, rounds)
    return [
        at_least("rate with 10^6 runs of that with 10^3", _percent(many, few), "%", 85),
        at_least("steps at 1 MB of context of those at 1 KB", _percent(large, small), "%", 85),
        plain("sagas with 10^3 runs in the store", few, "1/s"),
        plain("sagas with 10^6 runs in the store", many, "1/s"),
    ]


async def _rates(path: Path, runs: int, rounds: int) -> list[float]:
    raw.fill(path, runs)
    async with hosting(SqliteStore(path), concurrency=IN_FLIGHT) as (host, service):
        await drive(host, service, DEFINITION.id, 500, IN_FLIGHT)
        return [RUNS / await drive(host, service, DEFINITION.id, RUNS, IN_FLIGHT) for _ in range(rounds)]


async def _step_rates(path: Path, note: str, rounds: int) -> list[float]:
    """One run that walks in a loop: its start is paid once, so that what is left is the cost of its steps."""
    async with hosting(SqliteStore(path)) as (host, service):
        await drive(host, service, "loop", 1, 1, {"note": note})
        return [1_000 / await drive(host, service, "loop", 1, 1, {"note": note}) for _ in range(rounds)]


def _percent(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [100 * one / other for one, other in zip(ones, others, strict=True)]
