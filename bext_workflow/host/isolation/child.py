"""One process of a plugin, from the host's side."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process

import anyio
import msgspec

from bext_workflow.errors import BextError, PluginError
from bext_workflow.host.isolation import wire
from bext_workflow.host.told import CallEnd, CompleteEnd, ProcessEnded, StepEnd, UndoEnd, VerifyEnd
from bext_workflow.model.run import WorkflowRun

COMMAND = (sys.executable, "-m", "bext_workflow.host.isolation.worker")
_START_S = 60.0
_CLOSE_S = 3.0
_SPARE_BYTES = 1 << 20
"""What a line may have beside a context and as much again."""


class Child:
    """Does one call at a time. Whatever goes wrong with it ends it."""

    def __init__(self, name: str, process: Process) -> None:
        self._name = name
        self._process = process
        self._calls = 0

    @classmethod
    async def start(cls, start: wire.Start) -> Child:
        """Returns once the plugin's lifespan has begun there. Raises `PluginError`."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, str(os.getpid()), stdin=PIPE, stdout=PIPE, limit=2 * start.context_bytes + _SPARE_BYTES
        )
        child = cls(start.name, process)
        try:
            async with asyncio.timeout(_START_S):
                await child._greet(start)
        except TimeoutError:
            await child.kill()
            raise PluginError(
                f"plugin {start.name!r}: its process is not ready after {_START_S:.0f} s",
                mend="see what its import, its configure and its lifespan wait for",
            ) from None
        except BaseException:
            await child.kill()
            raise
        return child

    @property
    def usable(self) -> bool:
        """Whether it lives, as far as is known."""
        return self._process.returncode is None

    async def call(self, hook: str, run: WorkflowRun, *, beats: bool) -> CallEnd:
        """Has a hook called there. Cancelled, the process is killed. Raises `ProcessEnded`."""
        try:
            self._calls += 1
            await self._send(wire.Order(n=self._calls, hook=hook, run=wire.image_of(run), beats=beats))
            while True:
                match await self._received():
                    case StepEnd() | UndoEnd() | VerifyEnd() | CompleteEnd() as end:
                        return end
                    case wire.Beaten() | wire.Asked() as said if said.order != self._calls:
                        pass  # a thread that its call has left behind
                    case wire.Beaten(detail=detail):
                        run.heartbeat(detail)
                    case wire.Asked() as asked:
                        await self._send(_minted(run, asked))
                    case other:
                        raise ProcessEnded(f"the process of plugin {self._name!r} sent {type(other).__name__}")
        except BaseException:
            await self.kill()
            raise

    async def close(self) -> None:
        """Lets the plugin leave its lifespan; kills what takes too long."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """Returns when it is gone: nothing of the attempt goes on."""
        if self._process.returncode is None:
            self._process.kill()
        with anyio.CancelScope(shield=True):
            await self._process.wait()

    async def _greet(self, start: wire.Start) -> None:
        try:
            await self._send(start)
            for awaited in (wire.Described, wire.Ready):
                message = await self._received()
                if isinstance(message, wire.Refused):
                    raise message.error
                if not isinstance(message, awaited):
                    raise ProcessEnded(f"it sent {type(message).__name__}")
        except ProcessEnded as error:
            raise PluginError(
                f"plugin {self._name!r} cannot start: {error}", mend="what it wrote to standard error may tell why"
            ) from error

    async def _send(self, message: wire.FromHost) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise ProcessEnded(f"the process of plugin {self._name!r} has no standard input")
        try:
            stdin.write(wire.line(message))
            await stdin.drain()
        except OSError:
            raise await self._ended() from None

    async def _received(self) -> wire.FromPlugin:
        stdout = self._process.stdout
        try:
            text = b"" if stdout is None else await stdout.readline()
        except ValueError:
            raise ProcessEnded(f"the process of plugin {self._name!r} sent a line that is too long") from None
        if not text.endswith(b"\n"):
            raise await self._ended()
        try:
            return wire.from_plugin(text)
        except msgspec.MsgspecError as error:
            raise ProcessEnded(f"the process of plugin {self._name!r} sent nonsense: {error}") from None

    async def _ended(self) -> ProcessEnded:
        await self.kill()
        return ProcessEnded(f"the process of plugin {self._name!r} ended by itself: {_told(self._process.returncode)}")


def _minted(run: WorkflowRun, asked: wire.Asked) -> wire.Minted:
    try:
        return wire.Minted(n=asked.n, token=run.wait_token_for(asked.step))
    except BextError as error:
        return wire.Minted(n=asked.n, refused=error.message, mend=error.mend)


def _told(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
