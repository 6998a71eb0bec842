"""A host on PostgreSQL in a process of its own that drives what it is told to, a line of JSON at a time."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from types import TracebackType
from typing import Self

import msgspec

from bench.load import drive
from bench.saga import hosting
from bext_workflow_pg.store.store import PostgresStore


class Order(msgspec.Struct, frozen=True):
    """So many runs, at most so many at a time."""

    workflow: str
    runs: int
    in_flight: int


class Driven(msgspec.Struct, frozen=True):
    """What became of an order. `p50_us`: of a run, where they were driven one by one."""

    runs: int
    seconds: float
    cpu_s: float
    p50_us: float


class HostProcess:
    """The process, from the outside: `async with`."""

    def __init__(self, url: str, *, concurrency: int = 1_000) -> None:
        self._command = (sys.executable, "-m", "bench.one_host", url, str(concurrency))
        self._process: Process | None = None

    async def start(self) -> None:
        """Returns once the host drives."""
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)
        await self._told()

    async def drive(self, workflow: str, runs: int, in_flight: int) -> Driven:
        """Returns when all runs have ended."""
        process = self._running()
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(Order(workflow, runs, in_flight)) + b"\n")
            await process.stdin.drain()
        return msgspec.json.decode(await self._told(), type=Driven)

    async def stop(self) -> None:
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def _told(self) -> bytes:
        process = self._running()
        line = b"" if process.stdout is None else await process.stdout.readline()
        if not line:
            raise RuntimeError(f"the host ended with {await process.wait()}")
        return line

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("the host has not been started")
        return self._process


async def _obey(url: str, concurrency: int) -> None:
    async with hosting(PostgresStore(url), concurrency=concurrency) as (host, service):
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = msgspec.json.decode(line, type=Order)
            cpu, begun = time.process_time(), time.perf_counter()
            taken = []
            if order.in_flight == 1:
                taken = [await drive(host, service, order.workflow, 1, 1) for _ in range(order.runs)]
            else:
                await drive(host, service, order.workflow, order.runs, order.in_flight)
            driven = Driven(
                runs=order.runs,
                seconds=time.perf_counter() - begun,
                cpu_s=time.process_time() - cpu,
                p50_us=sorted(taken)[len(taken) // 2] * 1e6 if taken else 0,
            )
            print(msgspec.json.encode(driven).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(_obey(sys.argv[1], int(sys.argv[2])))
