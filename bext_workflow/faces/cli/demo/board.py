"""What the demo knows of its runs, and how that looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from bext_workflow.faces.cli import cells, exits
from bext_workflow.faces.cli.cells import NOTHING, Cell
from bext_workflow.faces.cli.demo.orders import STEPS, Order
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.model.view import RunView, StepView

COLUMNS = ("order", *STEPS, "run")


class Line(NamedTuple):
    """One order and its run as it was last seen."""

    order: Order
    run: RunView

    @property
    def open(self) -> bool:
        """Whether the run may still move by itself."""
        return exits.of_status(self.run.status) is Exit.STILL_RUNNING

    @property
    def waits_for_retry(self) -> bool:
        return any(step.status == "retrying" for step in self.run.steps or ())


class Board:
    """All lines; `headline` says what the host is going through."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.headline = ""

    @property
    def over(self) -> bool:
        return not any(line.open for line in self.lines)

    @property
    def in_the_middle(self) -> bool:
        """Some runs have ended, and all others wait for their next attempt: a crash now shows that waits survive."""
        moving = [line for line in self.lines if line.open]
        return 0 < len(moving) < len(self.lines) and all(line.waits_for_retry for line in moving)

    @property
    def surprises(self) -> list[Line]:
        """The runs that ended otherwise than their orders say."""
        return [line for line in self.lines if line.run.status is not line.order.ends]

    def update(self, position: int, run: RunView) -> None:
        self.lines[position] = self.lines[position]._replace(run=run)

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        for line in self.lines:
            visits = {step.step: step for step in line.run.steps or ()}
            yield Cell(line.order.shows), *(_step(visits.get(name)) for name in STEPS), cells.status(line.run.status)

    def totals(self) -> str:
        counted = Counter(line.run.status.value for line in self.lines)
        return f"{len(self.lines)} runs: {', '.join(f'{number} {status}' for status, number in counted.items())}"


def _step(visit: StepView | None) -> Cell:
    if visit is None:
        return NOTHING
    cell = cells.step_status(visit.status)
    return cell._replace(text=f"{cell.text} ({visit.attempts})") if visit.attempts > 1 else cell
