"""`serve`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from bext_workflow.faces.cli.arguments import DURATION, F
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.service.wiring import ServeOptions


def _setting(
    flag: str,
    *,
    help: str,
    type: click.ParamType[object] | None = None,
    is_flag: bool | None = None,
    metavar: str | None = None,
) -> Callable[[F], F]:
    """An option that the environment may set too, as it can the global ones."""
    variable = f"BEXT_{flag.removeprefix('--').replace('-', '_').upper()}"
    return click.option(flag, envvar=variable, show_envvar=True, help=help, type=type, is_flag=is_flag, metavar=metavar)


@click.command(cls=Command)
@_setting("--listen", metavar="HOST:PORT", help="Where to answer HTTP.")
@_setting("--concurrency", type=click.IntRange(min=1), help="How many runs are driven at once.")
@_setting("--drain-timeout", type=DURATION, help="How long running attempts may go on after SIGTERM.")
@_setting("--migrate", is_flag=True, help="Bring the store's schema up to date first.")
@_setting("--degraded", is_flag=True, help="Leave out plugins that cannot be used, instead of refusing to start.")
@_setting(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file to write when the host takes work: JSON with url and pid.",
)
@click.pass_obj
def serve(
    session: Session,
    listen: str | None,
    concurrency: int | None,
    drain_timeout: int | None,
    migrate: bool,
    degraded: bool,
    ready_file: Path | None,
) -> None:
    """Run the host until it is told to stop.

    SIGTERM and Ctrl-C drain: nothing new starts, running attempts may end; a second one stops at once. The exit code
    is 0 after a clean drain. kill -9 is safe at any moment.
    """
    target = session.local_target("serve")
    options = ServeOptions(
        listen=listen,
        concurrency=concurrency,
        drain_timeout_ms=drain_timeout,
        migrate=migrate,
        degraded=degraded,
        ready_file=ready_file,
        log_format=session.settings.log_format,
        verbosity=session.settings.verbose - session.settings.quiet,
    )

    async def host() -> None:
        await session.wiring.serve(target, options)

    session.run(host, fast=True)
