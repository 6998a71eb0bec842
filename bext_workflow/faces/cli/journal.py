"""A run's events in words, and how they are told while they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio

from bext_workflow.faces.cli.cells import exact_moment, moment
from bext_workflow.model.json import Json
from bext_workflow.model.view import EventView, RunView, instant
from bext_workflow.service.protocols import MAX_LIMIT
from bext_workflow.service.wiring import Reached

_POLL_S = 0.2

_MARKS = {
    "attempt_failed": "↻",
    "attempt_lost": "?",
    "compensation_started": "↶",
    "incident_opened": "!",
    "run_cancelled": "■",
    "run_compensated": "↶",
    "run_completed": "✓",
    "run_failed": "✗",
    "step_compensated": "↶",
    "step_completed": "✓",
    "step_failed": "✗",
}


def words(event: EventView) -> str:
    """The event's kind, as words."""
    return event.kind.replace("_", " ")


def step_of(event: EventView) -> str:
    """The step that the event is about, with its visit where it is not the first; empty if it is about none."""
    step, visit = event.data.get("step"), event.data.get("visit", 1)
    if not step:
        return ""
    return f"{step} #{visit}" if visit > 1 else str(step)


def detail(event: EventView) -> str:
    """What else the event says that a person wants to know."""
    return " · ".join(_details(event.data))


def told(event: EventView) -> str:
    """The event in one line."""
    parts = (_MARKS.get(event.kind, "·"), words(event), step_of(event), detail(event))
    return f"{exact_moment(event.at).text}  {'  '.join(part for part in parts if part)}"


class Teller:
    """Tells what is new in the journal of one run, each event once."""

    def __init__(self, reached: Reached, run_id: str, say: Callable[[str], None]) -> None:
        self._reached = reached
        self._run_id = run_id
        self._say = say
        self._seq = 0

    async def tell(self) -> bool:
        """Reads on and tells; whether there was something."""
        before = self._seq
        while True:
            page = await self._reached.runs.events(self._run_id, after=self._seq, limit=MAX_LIMIT)
            for event in page.items:
                self._say(told(event))
                self._seq = event.seq
            if page.next_cursor is None or not page.items:
                return self._seq > before

    async def until_terminal(self) -> RunView:
        """Tells until the run has ended."""
        run = await self._reached.runs.get(self._run_id)
        while not run.status.terminal:
            if await self.tell():
                run = await self._reached.runs.get(self._run_id)
            else:
                await anyio.sleep(_POLL_S)
        await self.tell()
        return run

    async def while_driven(self, *, wait_ms: int | None) -> RunView:
        """Drives the run, or waits for its host, and tells meanwhile; see `Reached.drive`."""
        over = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until, over)
            run = await self._reached.drive(self._run_id, wait_ms=wait_ms)
            over.set()
        return run

    async def _until(self, over: anyio.Event) -> None:
        while not over.is_set():
            await self.tell()
            with anyio.move_on_after(_POLL_S):
                await over.wait()
        await self.tell()


def _details(data: dict[str, Json]) -> Iterator[str]:
    if data.get("attempt", 1) > 1:
        yield f"attempt {data['attempt']}"
    if "kind" in data:
        yield str(data["kind"])
    if data.get("reason"):
        yield str(data["reason"])
    if "retry_at" in data:
        yield f"again at {moment(instant(data['retry_at'])).text}"
    if data.get("updates"):
        yield f"sets {', '.join(data['updates'])}"
    if data.get("actions"):
        yield f"answers: {', '.join(data['actions'])}"
    if data.get("action"):
        yield f"answer: {data['action']}"
    if data.get("note"):
        yield str(data["note"])
    if data.get("by"):
        yield f"by {data['by']}"
