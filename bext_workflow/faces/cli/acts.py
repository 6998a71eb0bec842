"""How the acts of a person are answered: they are recorded, and a host carries them out."""

from __future__ import annotations

from bext_workflow.faces.cli.context import Session
from bext_workflow.service.protocols import Acknowledged


def show(session: Session, done: Acknowledged) -> None:
    """Writes the acknowledgement, and says so if nothing is there to carry the act out."""
    follow = session.command("runs", "watch", done.run_id)
    session.output.show(done, lambda screen: screen.say(f"{done.act} of run {done.run_id} is recorded; see `{follow}`"))
    if not done.driven:
        session.output.note(f"no host drives this store: run `{session.command('serve')}`, and it is carried out")
