"""The way in: parses the command line, runs the command, turns every ending into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from click.exceptions import Exit as Asked

from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.problems import report
from bext_workflow.faces.cli.tree import PROGRAM, root

if TYPE_CHECKING:
    from bext_workflow.service.wiring import Wiring


def run(wiring_factory: Callable[[], Wiring], argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. `wiring_factory` is called only by a command that needs it."""
    session = Session(wiring_factory)
    try:
        return _invoke(session, sys.argv[1:] if argv is None else list(argv))
    except (Exception, KeyboardInterrupt) as problem:
        return report(problem, verbose=session.settings.verbose > 0)


def _invoke(session: Session, words: list[str]) -> int:
    try:
        with root.make_context(PROGRAM, words, obj=session) as context:
            code: int | None = root.invoke(context)
    except Asked as asked:
        code = asked.exit_code
    return int(code or 0)
