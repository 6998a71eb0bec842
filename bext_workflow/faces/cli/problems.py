"""How a command ends that could not do what it should: one line on stderr, how to mend it, an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click
from click.exceptions import NoArgsIsHelpError

from bext_workflow.errors import BextError
from bext_workflow.faces.cli import exits
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.text import plain, wants_colour


def report(problem: BaseException, *, verbose: bool) -> Exit:
    """Tells the person what stood in the way and returns the exit code."""
    problem = _heart(problem)
    match problem:
        case BrokenPipeError():
            _forget_stdout()
            return Exit.OK
        case KeyboardInterrupt() | click.Abort():
            click.echo("interrupted", err=True)
            return Exit.INTERRUPTED
        case NoArgsIsHelpError():
            problem.show()
            return Exit.USAGE
        case click.UsageError():
            _tell(problem.format_message(), f"see `{problem.ctx.command_path} --help`" if problem.ctx else "")
            return Exit.USAGE
        case BextError():
            _tell(problem.message, problem.mend)
            return exits.of_error(problem)
        case _:
            _tell_unexpected(problem, verbose=verbose)
            return Exit.UNEXPECTED


def _heart(problem: BaseException) -> BaseException:
    """What a group of exceptions is about: the error meant for a person, if one is in it, else the first."""
    leaves = list(_leaves(problem))
    return next((leaf for leaf in leaves if isinstance(leaf, BextError)), leaves[0])


def _leaves(problem: BaseException) -> Iterator[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        for inner in problem.exceptions:
            yield from _leaves(inner)
    else:
        yield problem


def _tell(message: str, mend: str) -> None:
    colour = wants_colour(sys.stderr)
    click.echo(f"{click.style('error:', fg='red', bold=True)} {plain(message)}", err=True, color=colour)
    for line in plain(mend).splitlines():
        click.echo(f"  {line}", err=True, color=colour)


def _tell_unexpected(problem: BaseException, *, verbose: bool) -> None:
    if verbose:
        import traceback

        click.echo("".join(traceback.format_exception(problem)), err=True, nl=False)
    said = " ".join(str(problem).split())
    _tell(
        f"unexpected {type(problem).__name__}{f': {said}' if said else ''}",
        "" if verbose else "run it again with -v to see the traceback",
    )


def _forget_stdout() -> None:
    """The reader is gone; what is left in the buffer must not raise once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
