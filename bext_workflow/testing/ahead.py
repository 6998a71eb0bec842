"""`bext-host` in a process whose wall clock is ahead of this machine's, for tests in which days pass.

::

    python -m bext_workflow.testing.ahead 86400000 serve --ready-file ready.json

Nothing but this module can do that: there is no option, no variable and no config for it.
"""

from __future__ import annotations

import sys

from bext_workflow.app import App
from bext_workflow.faces.cli.main import run
from bext_workflow.host.clock import SystemClock
from bext_workflow.testing.prover.configured import prove_configured


class ClockAhead(SystemClock):
    """The wall clock is `ms` ahead, or behind; the monotonic one is what it is."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def now(self) -> int:
        return super().now() + self._ms


def main(argv: list[str]) -> int:
    """The first argument is how far ahead in ms; the rest is a command line of `bext-host`. Returns its exit code."""
    ms, *command = argv
    return run(lambda: App(prove_configured, ClockAhead(int(ms))), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
