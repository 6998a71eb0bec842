"""`bext-host`, and `python -m bext_workflow`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bext_workflow.faces.cli.main import run

if TYPE_CHECKING:
    from bext_workflow.service.proof import Proof, ProofOptions
    from bext_workflow.service.wiring import Target, Wiring


def main() -> int:
    """The command line; returns its exit code."""
    return run(wiring)


def wiring() -> Wiring:
    """Imported late: everything behind the app costs more time than `--help` may take."""
    from bext_workflow.app import App

    return App(_prove)


async def _prove(target: Target, workflow: str, version: int | None, options: ProofOptions) -> Proof:
    from bext_workflow.testing.prover.configured import prove_configured

    return await prove_configured(target, workflow, version, options)


if __name__ == "__main__":
    sys.exit(main())
