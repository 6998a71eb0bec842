"""For the tests of the embedded store: stores, their insides, and other processes beside them."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from bext_workflow.stores import SqliteStore

T = TypeVar("T")

PRELUDE = """
import asyncio, os, sys
from pathlib import Path
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.contract.base import committed, creation, host, judged, run_id, started

store = SqliteStore(Path(sys.argv[1]))

def say(word):
    print(word, flush=True)

def heard():
    return sys.stdin.readline()

"""


@asynccontextmanager
async def opened(path: Path | None) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open(migrate=True)
    try:
        yield store
    finally:
        await store.close()


async def inside(store: SqliteStore, job: Callable[[sqlite3.Connection], T]) -> T:
    """Runs a job on the store's own writing connection."""
    return await store._write(job)


async def pragma(store: SqliteStore, text: str) -> object:
    """The first column of what `PRAGMA …` answers, None without an answer."""

    def ask(connection: sqlite3.Connection) -> object:
        row = connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    return await inside(store, ask)


class Process:
    """Another Python process that runs a script with `store`, `say` and `heard` in it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def says(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def tell(self, word: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        await self._process.stdin.drain()

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def ends(self) -> int:
        return await self._process.wait()


@asynccontextmanager
async def process(path: Path, script: str) -> AsyncIterator[Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PRELUDE + script, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Process(running)
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()
