"""The stages from outside: warm processes on which trials are played side by side."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import msgspec

from tests.acceptance.life import Life, Told
from tests.acceptance.stage import Ended

T = TypeVar("T")
P = TypeVar("P")

ROOT = Path(__file__).parents[2]
STAGES = 2


class Stage:
    """A warm process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def killed(self, life: Life) -> None:
        """Plays a life whose process must kill itself."""
        ended = self._play(life)
        if ended.signal != signal.SIGKILL:
            why = ended.error or ("it went to its end" if ended.told else f"signal {ended.signal}")
            raise AssertionError(f"life {life.number} in {life.folder} did not die at {life.fatal}: {why}")

    def told(self, life: Life) -> Told:
        """Plays a life to its end."""
        ended = self._play(life)
        if ended.told is None:
            raise AssertionError(f"life {life.number} in {life.folder} ended by signal {ended.signal}\n{ended.error}")
        return ended.told

    def _play(self, life: Life) -> Ended:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("the stage was started without pipes")
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Ended)


class Theatre:
    """Some stages."""

    def __init__(self, stages: Sequence[Stage], pool: ThreadPoolExecutor) -> None:
        self._free: SimpleQueue[Stage] = SimpleQueue()
        self._pool = pool
        for stage in stages:
            self._free.put(stage)

    def each(self, play: Callable[[Stage, P], T], parts: Sequence[P]) -> list[T]:
        """Plays every part, as many at a time as there are stages; the results in the order of the parts."""

        def on_a_stage(part: P) -> T:
            stage = self._free.get()
            try:
                return play(stage, part)
            finally:
                self._free.put(stage)

        return list(self._pool.map(on_a_stage, parts))

    def one(self, play: Callable[[Stage], T]) -> T:
        """Plays one part."""
        return self.each(lambda stage, _: play(stage), [None])[0]


@contextmanager
def theatre() -> Iterator[Theatre]:
    """Warm processes, until the block ends."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_process()) for _ in range(STAGES)]
        pool = stack.enter_context(ThreadPoolExecutor(STAGES))
        yield Theatre([Stage(process) for process in processes], pool)


@contextmanager
def _process() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.acceptance.stage"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
