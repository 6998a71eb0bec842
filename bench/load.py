"""Throughput, latency, rollback and CPU of the embedded host, each beside its reference in the same run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from bench import raw
from bench.report import Figure, at_least, at_most, plain
from bench.saga import CONTEXT, DEFINITION, ROLLED_BACK, hosting
from bext_workflow.host.host import Host
from bext_workflow.model.json import JsonObject
from bext_workflow.service.protocols import StartRequest
from bext_workflow.service.service import Service
from bext_workflow.stores import SqliteStore

RUNS = 2_000
IN_FLIGHT = 1_000
LONE_RUNS = 300


async def drive(
    host: Host, service: Service, workflow: str, runs: int, in_flight: int, context: JsonObject = CONTEXT
) -> float:
    """Starts `runs` and waits for each to end, at most `in_flight` at a time; returns the seconds."""
    left = iter(range(runs))

    async def one_after_another() -> None:
        for _ in left:
            started = await service.start(StartRequest(workflow=workflow, context=context))
            await host.settlements.next(started.run.run_id)

    begun = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(min(in_flight, runs))))
    return time.perf_counter() - begun


async def measure(folder: Path, rounds: int) -> Sequence[Figure]:
    """Rounds of ours and of the raw limits take turns, so that both see the same machine."""
    disk: list[float] = []
    grouped: list[float] = []
    single: list[float] = []
    forward: list[float] = []
    back: list[float] = []
    cpu: list[float] = []
    p50: list[float] = []
    p99: list[float] = []
    async with hosting(SqliteStore(folder / "load.db"), concurrency=IN_FLIGHT) as (host, service):
        await drive(host, service, DEFINITION.id, 500, IN_FLIGHT)
        for turn in range(rounds):
            place = folder / str(turn)
            place.mkdir()
            disk.append(raw.fdatasync_p50_us(place))
            grouped.append(raw.members_per_second(place, group=200, seconds=1))
            single.append(raw.members_per_second(place, group=1, seconds=1))
            cpu_before = time.process_time()
            forward.append(RUNS / await drive(host, service, DEFINITION.id, RUNS, IN_FLIGHT))
            cpu.append((time.process_time() - cpu_before) / RUNS * 1_000)
            back.append(RUNS / await drive(host, service, ROLLED_BACK.id, RUNS, IN_FLIGHT))
            lone = sorted([await drive(host, service, DEFINITION.id, 1, 1) * 1e6 for _ in range(LONE_RUNS)])
            p50.append(lone[LONE_RUNS // 2])
            p99.append(lone[LONE_RUNS * 99 // 100])
    members = [rate * raw.MEMBERS_A_SAGA for rate in forward]
    return [
        at_least("of the raw grouped limit", _ratios(members, grouped, 100), "%", 12),
        at_least("times one commit a row", _ratios(members, single), "×", 3.5),
        at_most("lone run p50 / 4 fdatasync", _ratios(p50, [4 * one for one in disk]), "×", 3.5),
        at_least("rollback rate of forward rate", _ratios(back, forward, 100), "%", 60),
        at_most("CPU of 1,000 sagas", cpu, "s", 0.5),
        plain("sagas, 1,000 in flight", forward, "1/s"),
        plain("sagas rolled back, 1,000 in flight", back, "1/s"),
        plain("lone run p50", p50, "µs"),
        plain("lone run p99", p99, "µs"),
        plain("raw, 200 members a commit", grouped, "1/s"),
        plain("raw, one member a commit", single, "1/s"),
        plain("4 KiB overwrite + fdatasync p50", disk, "µs"),
    ]


def _ratios(ours: Sequence[float], theirs: Sequence[float], scale: float = 1) -> list[float]:
    return [scale * one / other for one, other in zip(ours, theirs, strict=True)]
