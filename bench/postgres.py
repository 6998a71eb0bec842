"""The host on PostgreSQL with its default durability: one of them beside the bare driver, several beside one.

Each host is a process (`python -m bench.one_host`), as it is in production: hosts share the cores with the database.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import asyncpg
import msgspec

from bench import raw_postgres
from bench.one_host import Driven, HostProcess
from bench.raw import MEMBERS_A_SAGA
from bench.report import Figure, at_least, at_most, plain
from bench.saga import DEFINITION, ROLLED_BACK, SLOW
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.server import Server, own_server

RUNS = 6_000
IN_FLIGHT = 1_000
LONE_RUNS = 200
SLOW_RUNS, SLOW_IN_FLIGHT = 512, 64
HOSTS = (1, 2, 4)
IDLE_S = 20.0
REFERENCE_MEMBERS, REFERENCE_SAGAS = 20_000, 2_000
"""Where one connection's grouped UPDATE and insert does so many members a second, a host shall do so many sagas."""


class _Rates(msgspec.Struct, frozen=True):
    """What hosts did together: sagas a second, and seconds of CPU a thousand sagas, with the database's."""

    sagas: float
    cpu: float

    @property
    def of_possible(self) -> float:
        """The share, in percent, of what the cores could do if they did nothing else."""
        return 100 * self.sagas / ((os.cpu_count() or 1) / (self.cpu / 1_000))


async def measure(folder: Path, rounds: int) -> Sequence[Figure]:
    """Rounds of ours and of the raw limits take turns, so that both see the same machine."""
    with own_server(durable=True, within=folder) as server:
        return [*await _one(server, rounds), *await _several(server, rounds), await _idle(server)]


async def _one(server: Server, rounds: int) -> Sequence[Figure]:
    grouped: list[float] = []
    commit: list[float] = []
    forward: list[_Rates] = []
    back: list[_Rates] = []
    p50: list[float] = []
    host_cpu: list[float] = []
    bare, ours = await _database(server, "bare"), await _database(server, "ours")
    async with HostProcess(ours) as host:
        await host.drive(DEFINITION.id, 500, IN_FLIGHT)
        for _ in range(rounds):
            grouped.append(await raw_postgres.members_per_second(bare, group=200, seconds=2))
            commit.append(await raw_postgres.commit_p50_us(bare))
            before = server.cpu_s
            driven = await host.drive(DEFINITION.id, RUNS, IN_FLIGHT)
            forward.append(_rates([driven], driven.seconds, server.cpu_s - before))
            host_cpu.append(driven.cpu_s / RUNS * 1_000)
            before = server.cpu_s
            driven = await host.drive(ROLLED_BACK.id, RUNS, IN_FLIGHT)
            back.append(_rates([driven], driven.seconds, server.cpu_s - before))
            p50.append((await host.drive(DEFINITION.id, LONE_RUNS, 1)).p50_us)
    pairs = list(zip(forward, grouped, strict=True))
    wanted = [REFERENCE_SAGAS * members / REFERENCE_MEMBERS for members in grouped]
    return [
        at_least("PostgreSQL: of the wanted rate", _percent([one.sagas for one in forward], wanted), "%", 100),
        at_least("of the raw grouped limit", [100 * f.sagas * MEMBERS_A_SAGA / g for f, g in pairs], "%", 25),
        at_most("lone run p50 / 4 bare commits", [p / (4 * c) for p, c in zip(p50, commit, strict=True)], "×", 3),
        at_least(
            "rollback rate of forward rate", _percent([one.sagas for one in back], [f.sagas for f in forward]), "%", 60
        ),
        at_most("CPU of 1,000 sagas, with the database's", [one.cpu for one in forward], "s", 0.6),
        plain("CPU of 1,000 sagas, the host's", host_cpu, "s"),
        plain("sagas, 1,000 in flight", [one.sagas for one in forward], "1/s"),
        plain("sagas rolled back, 1,000 in flight", [one.sagas for one in back], "1/s"),
        plain("lone run p50", p50, "µs"),
        plain("raw, 200 members a commit", grouped, "1/s"),
        plain("one bare commit p50", commit, "µs"),
    ]


async def _several(server: Server, rounds: int) -> Sequence[Figure]:
    figures: list[Figure] = []
    slow: dict[int, list[float]] = {}
    for hosts in HOSTS:
        url = await _database(server, f"shared_{hosts}")
        fast: list[_Rates] = []
        running = [HostProcess(url, concurrency=SLOW_IN_FLIGHT) for _ in range(hosts)]
        for one in running:
            await one.start()
        try:
            await _together(server, running, DEFINITION.id, 500, SLOW_IN_FLIGHT)
            for _ in range(rounds):
                fast.append(await _together(server, running, DEFINITION.id, RUNS // hosts, SLOW_IN_FLIGHT))
                if hosts <= 2:
                    rates = await _together(server, running, SLOW.id, SLOW_RUNS, SLOW_IN_FLIGHT)
                    slow.setdefault(hosts, []).append(rates.sagas)
        finally:
            for one in running:
                await one.stop()
        # One host is one interpreter: with the database it cannot fill two cores.
        share = partial(at_least, bound=85) if hosts > 1 else plain
        figures.append(share(f"{_hosts(hosts)}: of cores ÷ CPU", [one.of_possible for one in fast], "%"))
        figures.append(plain(f"{_hosts(hosts)}: sagas", [one.sagas for one in fast], "1/s"))
    twice = [two / one for one, two in zip(slow[1], slow[2], strict=True)]
    return [*figures, at_least("two hosts of one, steps of 50 ms", twice, "×", 1.8)]


async def _idle(server: Server) -> Figure:
    """What a host with nothing to do asks of the database."""
    url = await _database(server, "idle")
    async with HostProcess(url) as host:
        await host.drive(DEFINITION.id, 1, 1)
        before = await _transactions(server)
        await asyncio.sleep(IDLE_S)
        asked = await _transactions(server) - before
    return at_most("queries of an idle host", [asked / IDLE_S], "1/s", 1)


async def _together(server: Server, hosts: Sequence[HostProcess], workflow: str, runs: int, in_flight: int) -> _Rates:
    before, begun = server.cpu_s, time.perf_counter()
    driven = await asyncio.gather(*(one.drive(workflow, runs, in_flight) for one in hosts))
    return _rates(driven, time.perf_counter() - begun, server.cpu_s - before)


def _rates(driven: Sequence[Driven], seconds: float, database_cpu_s: float) -> _Rates:
    runs = sum(one.runs for one in driven)
    cpu = sum(one.cpu_s for one in driven) + database_cpu_s
    return _Rates(sagas=runs / seconds, cpu=cpu / runs * 1_000)


async def _database(server: Server, name: str) -> str:
    """The URL of a new database with the store's tables."""
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    url = server.url.removesuffix("postgres") + name
    store = PostgresStore(url)
    await store.open(migrate=True)
    await store.close()
    return url


async def _transactions(server: Server) -> int:
    """How many there have been in the database `idle`; sessions tell of theirs some seconds late."""
    connection = await asyncpg.connect(server.url)
    try:
        count: int = await connection.fetchval(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'idle'"
        )
        return count
    finally:
        await connection.close()


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _percent(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [100 * one / other for one, other in zip(ones, others, strict=True)]
