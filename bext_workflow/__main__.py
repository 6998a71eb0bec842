"""`bext-host`, and `python -m bext_workflow`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bext_workflow.faces.cli.main import run

if TYPE_CHECKING:
    from bext_workflow.service.wiring import Wiring


def main() -> int:
    """The command line; returns its exit code."""
    return run(_wiring)


def _wiring() -> Wiring:
    """Imported late: everything behind the app costs more time than `--help` may take."""
    from bext_workflow.app import App

    return App()


if __name__ == "__main__":
    sys.exit(main())
