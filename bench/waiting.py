"""A hundred thousand waiting runs: what they cost a host in memory and idle CPU, and how soon they are known again."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import raw
from bench.report import Figure, at_most, plain
from bench.saga import WAITING, hosting
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.stores import SqliteStore

RUNS = 100_000
_IDLE_S = 5.0


def measure(folder: Path, rounds: int) -> Sequence[Figure]:
    """Each round is two processes: a host with no runs, and one with `RUNS` that wait."""
    raw.fill_waiting(folder / "waiting.db", RUNS, WAITING)
    none = [_idle_host(folder / f"none-{turn}.db") for turn in range(rounds)]
    many = [_idle_host(folder / "waiting.db") for _ in range(rounds)]
    apiece = [(one["rss"] - other["rss"]) / RUNS for one, other in zip(many, none, strict=True)]
    return [
        at_most("host memory for each of 10^5 waiting runs", apiece, "bytes", 200),
        at_most("10^5 waiting runs are known again after", [one["known_s"] for one in many], "s", 1),
        at_most("idle CPU with 10^5 waiting runs", [one["cpu"] * 100 for one in many], "%", 1),
        plain("idle CPU with none", [one["cpu"] * 100 for one in none], "%"),
    ]


def _idle_host(path: Path) -> dict[str, float]:
    told = subprocess.run(
        [sys.executable, "-m", "bench.waiting", str(path)], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


async def _idle(path: Path) -> dict[str, float]:
    """A host that does nothing for a while; before that one of its waiting runs, if it has any, takes a signal."""
    begun = time.perf_counter()
    async with hosting(SqliteStore(path)) as (host, service):
        page = await service.list(raw.waiting_query())
        known = 0.0
        if page.items:
            run_id = page.items[0].run_id
            ended = host.settlements.next(run_id)
            await service.signal(run_id, SignalRequest(name="go"))
            await ended
            known = time.perf_counter() - begun
        cpu = time.process_time()
        await asyncio.sleep(_IDLE_S)
        idle = (time.process_time() - cpu) / _IDLE_S
        return {"rss": _rss_bytes(), "known_s": known, "cpu": idle}


def _rss_bytes() -> float:
    """What the process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_idle(Path(sys.argv[1])))))
    sys.stdout.flush()
    os._exit(0)
