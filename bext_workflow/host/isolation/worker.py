"""`python -m bext_workflow.host.isolation.worker`: the process that a plugin runs in. Only a host starts it."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from functools import partial
from itertools import count
from pathlib import Path

from bext_workflow.errors import BextError, DefinitionError
from bext_workflow.host import lifespans
from bext_workflow.host.clock import SystemClock
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.invoke import Call, Handle, Invoker
from bext_workflow.host.isolation import wire
from bext_workflow.host.isolation.channel import Channel, end_with_parent
from bext_workflow.host.pulse import MAX_DETAIL_BYTES, Unstated
from bext_workflow.host.threads import Threads
from bext_workflow.host.told import CallEnd, CompleteEnd, StepEnd, UndoEnd, VerifyEnd
from bext_workflow.model.json import Json, detach
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Plugin, PluginSpec, load_here


class _Silent:
    """No thread of this process ever leaks: its host kills the process instead."""

    def log(self, event: str, **fields: object) -> None:
        """Goes nowhere."""

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Goes nowhere."""

    def value(self, metric: str, **labels: str) -> float:
        """Nothing is counted."""
        return 0.0


class Worker:
    """Does the calls that the host orders, one at a time."""

    def __init__(self, channel: Channel, plugin: Plugin, context_bytes: int) -> None:
        self._channel = channel
        self._plugin = plugin
        self._context_bytes = context_bytes
        self._questions = count(1)
        self._answers: dict[int, queue.SimpleQueue[wire.Minted]] = {}
        self._busy = False

    async def serve(self) -> None:
        """Until the host closes its end. Raises `PluginError` of the plugin's lifespan."""
        orders: asyncio.Queue[wire.Order | None] = asyncio.Queue()
        threads = Threads(1, _Silent(), most_leaked=1, too_many=lambda: None)
        invoker = Invoker(Deadlines(SystemClock()), threads)
        async with lifespans.opened([self._plugin]):
            listening = partial(self._listen, asyncio.get_running_loop(), orders)
            threading.Thread(target=listening, name="bext-host", daemon=True).start()
            self._channel.send(wire.Ready())
            while (order := await orders.get()) is not None:
                end = await self._obey(invoker, order)
                self._busy = False
                self._channel.send(end)

    def _listen(self, loop: asyncio.AbstractEventLoop, orders: asyncio.Queue[wire.Order | None]) -> None:
        while True:
            message = self._channel.receive()
            match message:
                case wire.Order():
                    self._busy = True
                    loop.call_soon_threadsafe(orders.put_nowait, message)
                case wire.Minted():
                    self._answers[message.n].put(message)
                case _:
                    # Nobody waits for a call that is under way.
                    if self._busy:
                        os._exit(0)
                    loop.call_soon_threadsafe(orders.put_nowait, None)
                    return

    async def _obey(self, invoker: Invoker, order: wire.Order) -> CallEnd:
        match order.hook:
            case "run_step":
                call = self._call(order, self._plugin.run_step)
                return StepEnd(await invoker.step(call, max_bytes=self._context_bytes))
            case "compensate_step":
                return UndoEnd(await invoker.undo(self._call(order, self._plugin.compensate_step)))
            case "verify_step":
                call = self._call(order, self._plugin.verify_step)
                return VerifyEnd(await invoker.verify(call, max_bytes=self._context_bytes))
            case _:
                return CompleteEnd(await invoker.complete(self._call(order, self._plugin.on_workflow_complete)))

    def _call(self, order: wire.Order, hook: Hook | None) -> Call:
        """Its time is the host's business."""
        if hook is None:
            raise ValueError(f"the plugin has no hook {order.hook}")
        beat = partial(self._beat, order.n) if order.beats else Unstated(order.run.step)
        return Call(
            plugin=self._plugin.name,
            hook=hook,
            run=wire.run_of(order.run, beat=beat, mint=partial(self._mint, order.n)),
            timeout_ms=0,
            handle=Handle(),
            on_late=lambda result, error: None,
        )

    def _beat(self, order: int, detail: Json) -> None:
        if detail is not None:
            detach({"detail": detail}, max_bytes=MAX_DETAIL_BYTES, what="the detail of a heartbeat")
        self._channel.send(wire.Beaten(order=order, detail=detail))

    def _mint(self, order: int, step: str | None) -> str:
        """Waits for the host, which answers at once; not to a thread that asks for a call that is over."""
        asked = next(self._questions)
        answer = self._answers[asked] = queue.SimpleQueue()
        self._channel.send(wire.Asked(order=order, n=asked, step=step))
        minted = answer.get()
        del self._answers[asked]
        if minted.refused is not None:
            raise DefinitionError(minted.refused, mend=minted.mend)
        return minted.token


def main() -> int:
    """Answers the first line with what the plugin has, or why it cannot be used; then serves."""
    channel = Channel.taken()
    end_with_parent(int(sys.argv[1]))
    start = channel.receive()
    if not isinstance(start, wire.Start):
        return 2
    spec = PluginSpec(name=start.name, source=start.source, config=start.config)
    try:
        plugin = load_here(spec, HostInfo(data_dir=Path(start.data_dir), store=start.store))
        channel.send(_described(plugin))
        if start.serve:
            asyncio.run(Worker(channel, plugin, start.context_bytes).serve())
    except BextError as error:
        channel.send(wire.Refused(reason=error.message, mend=error.mend))
        return 1
    return 0


def _described(plugin: Plugin) -> wire.Described:
    return wire.Described(
        distribution=plugin.distribution,
        version=plugin.version,
        entry_point=plugin.entry_point,
        hooks=tuple(sorted(plugin.hooks)),
        definitions=plugin.definitions,
        schedules=plugin.schedules,
    )


if __name__ == "__main__":
    sys.exit(main())
