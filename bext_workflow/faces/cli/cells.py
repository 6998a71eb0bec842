"""What stands in the tables: text with a style, and the cells that several commands have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import SignalState


class Cell(NamedTuple):
    """Text from anywhere; `style` is ours, and the screen takes nothing else from the text than its characters."""

    text: str
    style: str = ""


NOTHING = Cell("–", "dim")

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))

_STATUS_STYLES = {
    WorkflowStatus.PENDING: "dim",
    WorkflowStatus.RUNNING: "cyan",
    WorkflowStatus.WAITING: "blue",
    WorkflowStatus.SUSPENDED: "bold magenta",
    WorkflowStatus.COMPENSATING: "yellow",
    WorkflowStatus.COMPLETED: "green",
    WorkflowStatus.COMPENSATED: "bold yellow",
    WorkflowStatus.FAILED: "bold red",
    WorkflowStatus.CANCELLED: "bold",
}

_STEP_STYLES = {
    "running": "cyan",
    "retrying": "blue",
    "waiting": "blue",
    "in_doubt": "bold magenta",
    "held": "magenta",
    "completed": "green",
    "failed": "bold red",
    "undoing": "yellow",
    "compensated": "bold yellow",
    "left_in_place": "red",
}


def text(value: object) -> Cell:
    """Any value; None and the empty string show as a dash."""
    return NOTHING if value is None or value == "" else Cell(str(value))


def listed(values: Iterable[str]) -> Cell:
    return text(", ".join(values))


def status(value: WorkflowStatus) -> Cell:
    return Cell(value.value, _STATUS_STYLES[value])


def step_status(value: str) -> Cell:
    return Cell(value.replace("_", " "), _STEP_STYLES.get(value, ""))


def signal_state(value: SignalState) -> Cell:
    return Cell(value.value, "red" if value is SignalState.LATE else "")


def moment(instant: str | None) -> Cell:
    """An RFC 3339 instant as local time, to the second."""
    return NOTHING if instant is None else Cell(f"{_local(instant):%m-%d %H:%M:%S}")


def exact_moment(instant: str) -> Cell:
    """An RFC 3339 instant as local time, to the millisecond: in a journal the order of things is the point."""
    return Cell(f"{_local(instant):%m-%d %H:%M:%S.%f}"[:-3])


def duration(ms: int) -> str:
    """Ms in the units that people count in, exactly: `3 d`, `1 h 30 min`, `250 ms`."""
    parts = []
    for unit, size in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def _local(instant: str) -> datetime:
    return datetime.fromisoformat(instant).astimezone()
