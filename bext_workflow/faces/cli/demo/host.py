"""The demo's host: `bext-host serve` as a process of its own, so that it can be killed like one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from bext_workflow.errors import Unavailable
from bext_workflow.faces.cli.text import one_line

_POLL_S = 0.02
_START_S = 30.0
_STOP_S = 10.0


class DemoHost:
    """A host over `folder`, where its config is. It keeps its address when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "bext.config.toml"
        self.log = folder / "host.log"
        self._ready = folder / "ready.json"
        self._listen = "127.0.0.1:0"
        self._process: Process | None = None
        self.url = ""

    async def start(self) -> None:
        """Returns when the host takes work. Raises `Unavailable` with what it said, if it does not come up."""
        self._ready.unlink(missing_ok=True)
        words = ["serve", "-c", str(self.config), "--listen", self._listen, "--ready-file", str(self._ready)]
        with self.log.open("ab") as log:
            self._process = await anyio.open_process(
                [sys.executable, "-m", "bext_workflow", *words],
                stdin=None,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("BEXT_")},
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the host in its own way
            )
        self.url = await self._wait_until_ready(self._process)
        self._listen = self.url.removeprefix("http://")

    async def kill(self) -> None:
        """SIGKILL: no time for a last word."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for a host that does not drain."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        with anyio.move_on_after(_STOP_S):
            await self._process.wait()
            return
        await self.kill()

    async def _wait_until_ready(self, process: Process) -> str:
        with anyio.move_on_after(_START_S):
            while process.returncode is None:
                with suppress(FileNotFoundError, json.JSONDecodeError):  # not there yet, or half of it
                    url: str = json.loads(self._ready.read_text(encoding="utf-8"))["url"]
                    return url
                await anyio.sleep(_POLL_S)
        raise Unavailable("the demo's host did not start", mend=f"it said: {one_line(self._last_words())}")

    def _last_words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-1000:]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[DemoHost]:
    """A host that is there inside the block, and gone after it, whatever happens."""
    host = DemoHost(folder)
    try:
        await host.start()
        yield host
    finally:
        with anyio.CancelScope(shield=True):
            await host.stop()
