"""`prove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli.arguments import REFERENCE
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.values import WorkflowRef
from bext_workflow.service.proof import Proof, ProofOptions

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen


@click.command(cls=Command)
@click.argument("workflow", type=REFERENCE, metavar="WORKFLOW[@V]")
@click.option(
    "--budget", type=click.IntRange(min=0), default=0, show_default=True, help="Explore so many pairs of faults, too."
)
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 100),
    default=0,
    show_default=True,
    help="The share of effects, in percent, whose undo is to be seen to work.",
)
@click.option("--replay", metavar="CASE", help="Play this case alone, and tell it.")
@click.pass_obj
def prove(session: Session, workflow: WorkflowRef, budget: int, fail_under: float, replay: str | None) -> Exit:
    """Prove that a workflow leaves nothing behind, whatever goes wrong.

    Every fault happens at every call, on every path. Nothing outside is touched: the plugin plays with the fakes that
    its hook rehearse gives it, on a host of its own. The exit code is 3 if a promise is broken, or the coverage is
    under the mark.
    """
    target = session.local_target("prove")
    options = ProofOptions(budget=budget, replay=replay)

    async def look() -> Proof:
        return await session.wiring.prove(target, workflow.id, workflow.version, options)

    proof = session.run(look)
    session.output.show(proof, lambda screen: _draw(screen, session, workflow, proof))
    short = replay is None and proof.coverage.percent < fail_under
    if short:
        seen = f"{proof.coverage.percent:.0f} %"
        session.output.note(f"the undo of {seen} of the effects was seen, and that is under {fail_under:g} %")
    return Exit.OK if proof.holds and not short else Exit.INVALID


def _draw(screen: Screen, session: Session, workflow: WorkflowRef, proof: Proof) -> None:
    screen.block(str(proof))
    if proof.broken and not proof.story:
        name = workflow.id if workflow.version is None else f"{workflow.id}@{workflow.version}"
        screen.say("To play a case alone:")
        screen.commands((one.promise, session.command("prove", name, "--replay", one.case)) for one in proof.broken)
