"""A run's events in words, and how they are told while they happen."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from bext_workflow.faces.cli import waiting
from bext_workflow.faces.cli.cells import exact_moment, moment
from bext_workflow.faces.cli.context import Session
from bext_workflow.model.json import Json, JsonObject, dumps
from bext_workflow.model.view import EventView, RunView, WaitView, instant
from bext_workflow.service.protocols import MAX_LIMIT
from bext_workflow.service.wiring import Reached

_POLL_S = 0.2
_TAKING_MS = 1_000
_DETAIL_TOLD = 80

_ENDS = {"signal": "its signal", "timer": "its time", "stop": "a stop", "person": "a person"}

_MARKS = {
    "attempt_failed": "↻",
    "attempt_lost": "?",
    "compensation_started": "↶",
    "heartbeat_recorded": "♥",
    "incident_opened": "!",
    "run_cancelled": "■",
    "run_compensated": "↶",
    "run_completed": "✓",
    "run_failed": "✗",
    "run_paused": "‖",
    "run_resumed": "▸",
    "run_timed_out": "◷",
    "signal_received": "→",
    "step_compensated": "↶",
    "step_completed": "✓",
    "step_failed": "✗",
    "wait_ended": "▸",
    "wait_opened": "◷",
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
    """Tells what is new in the journal of one run, each event once, and what to type when the run waits."""

    def __init__(self, reached: Reached, run_id: str, session: Session) -> None:
        self._reached = reached
        self._run_id = run_id
        self._session = session
        self._say = session.output.note
        self._seq = 0
        self._known: list[WaitView] = []

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
        """Tells until the run has ended, if nothing that was just asked of it sets it going again."""
        run = await self._reached.runs.get(self._run_id)
        if run.status.terminal:
            run = await self._reached.runs.result(self._run_id, wait_ms=_TAKING_MS)
        while not run.status.terminal:
            if await self.tell():
                run = await self._reached.runs.get(self._run_id)
                self._tell_waits(run)
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

    def _tell_waits(self, run: RunView) -> None:
        """What the run waits for now: the journal tells of waits that are long over, too."""
        waits = run.waits or []
        for wait in waits:
            if wait not in self._known:
                self._say(f"it waits {waiting.words(wait)}")
                for _, line in waiting.commands(run, wait, self._session):
                    self._say(f"    {line}")
        self._known = waits

    async def _until(self, over: anyio.Event) -> None:
        while not over.is_set():
            await self.tell()
            with anyio.move_on_after(_POLL_S):
                await over.wait()
        await self.tell()


def _details(data: JsonObject) -> Iterator[str]:
    yield from _details_of_waiting(data)
    if data.get("attempt", 1) > 1:
        yield f"attempt {data['attempt']}"
    if "kind" in data:
        yield str(data["kind"])
    if data.get("reason"):
        yield str(data["reason"])
    if "retry_at" in data:
        yield f"again at {moment(instant(data['retry_at'])).text}"
    if "detail" in data:
        yield _short(data["detail"])
    if data.get("updates"):
        yield f"sets {', '.join(data['updates'])}"
    yield from data.get("changes", ())
    if data.get("actions"):
        yield f"answers: {', '.join(data['actions'])}"
    if data.get("action"):
        yield f"answer: {data['action']}"
    if data.get("note"):
        yield str(data["note"])
    if data.get("by"):
        yield f"by {data['by']}"


def _short(value: Json) -> str:
    text = dumps(value).decode()
    return text if len(text) <= _DETAIL_TOLD else f"{text[:_DETAIL_TOLD]}…"


def _details_of_waiting(data: JsonObject) -> Iterator[str]:
    """What is waited for, which signal came, how a wait ended."""
    if data.get("name"):
        yield f"{data['name']}, too late" if data.get("late") else str(data["name"])
    if data.get("wait"):
        wait = data["wait"]
        due_at = wait.get("due_at")
        yield waiting.awaited(wait.get("signal"), None if due_at is None else instant(due_at))
    if "how" in data:
        yield f"by {_ENDS.get(data['how'], data['how'])}"
