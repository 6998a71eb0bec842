"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import click

from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.values import Parsed, is_duration, parse_duration, parse_reference
from bext_workflow.service.protocols import DEFAULT_LIMIT

F = TypeVar("F", bound=Callable[..., object])

FOREVER: Final = -1
"""The ms of `--wait` without a duration, and of `--wait=forever`."""

DURATION = Parsed("duration", parse_duration)
REFERENCE = Parsed("workflow", parse_reference)


class WaitingCommand(Command):
    """A command with `--wait[=DUR]`: the word after it is its value only if it is a duration."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_bound(args)))


def _bound(words: list[str]) -> list[str]:
    bound: list[str] = []
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        bare = word == "--wait" and "--" not in words[:position] and not is_duration(following)
        bound.append("--wait=forever" if bare else word)
    return bound


def _wait(text: str) -> int:
    return FOREVER if text == "forever" else parse_duration(text)


def wait_bound(wait: int | None) -> int | None:
    """The `wait_ms` that a given `--wait` stands for: None is no bound."""
    return None if wait == FOREVER else wait


def wait_option(help: str) -> Callable[[F], F]:
    return click.option("--wait", type=Parsed("duration", _wait), metavar="[DURATION]", help=help)


def run_argument(function: F) -> F:
    return click.argument("run_id", metavar="RUN")(function)


def limit_option(function: F) -> F:
    return click.option(
        "--limit", type=click.IntRange(min=1), default=DEFAULT_LIMIT, show_default=True, help="At most so many."
    )(function)


def cursor_option(function: F) -> F:
    return click.option("--cursor", help="Go on where an earlier list ended.")(function)


def reason_option(function: F) -> F:
    return click.option("--reason", default="", help="Why; it is kept in the journal.")(function)
