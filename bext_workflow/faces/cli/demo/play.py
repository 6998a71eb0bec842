"""The demo's course: order, watch, perhaps kill the host and start it again, until every run has ended."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from bext_workflow.errors import Unavailable
from bext_workflow.faces.cli.demo.board import Board, Line
from bext_workflow.faces.cli.demo.host import DemoHost
from bext_workflow.faces.cli.demo.orders import ORDERS, WORKFLOW
from bext_workflow.service.protocols import Runs, StartRequest

_POLL_S = 0.1


async def order_all(runs: Runs) -> Board:
    """Starts a run for each order."""
    lines: list[Line] = []
    for number, order in enumerate(ORDERS, start=1):
        order_id = f"order-{number}"
        started = await runs.start(
            StartRequest(workflow=WORKFLOW, version=1, context=order.context(order_id), key=order_id)
        )
        lines.append(Line(order, started.run))
    return Board(lines)


async def watch(runs: Runs, board: Board, host: DemoHost, draw: Callable[[], None], *, crash: bool) -> None:
    """Follows the runs until all have ended; with `crash` the host is killed once, when it hurts."""
    async with anyio.create_task_group() as tasks:
        while True:
            await _look(runs, board)
            draw()
            if board.over:
                return
            if crash and board.in_the_middle:
                crash = False
                tasks.start_soon(_crash, board, host)
            await anyio.sleep(_POLL_S)


async def _look(runs: Runs, board: Board) -> None:
    """Reads the runs that may have moved; while the host is down they stay as they were."""
    for position, line in enumerate(board.lines):
        if line.open:
            try:
                board.update(position, await runs.get(line.run.run_id))
            except Unavailable:
                return


async def _crash(board: Board, host: DemoHost) -> None:
    await host.kill()
    board.headline = "kill -9: the host is gone. Starting it again …"
    await host.start()
    board.headline = "The host was killed and is back: every run goes on where its last checkpoint was."
