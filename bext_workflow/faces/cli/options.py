"""The global options. They may stand before the command or after it; what stands later wins."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

FORMATS = ("auto", "table", "json", "jsonl")
LOG_FORMATS = ("auto", "console", "json")


class Settings:
    """What the global options say."""

    config: Path | None = None
    url: str | None = None
    token: str | None = None
    output: str = "auto"
    quiet: bool = False
    verbose: int = 0
    log_format: str = "auto"
    yes: bool = False


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    """An option that is typed overrides; one from the environment, or a default, is only taken by the root."""
    settings: Settings = context.obj.settings
    typed = context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    if value is not None and (typed or context.parent is None):
        setattr(settings, option.name, value)


class _Global(click.Option):
    """Named in the help of the root only."""

    def __init__(
        self,
        *flags: str,
        help: str,
        type: click.ParamType[object] | None = None,
        is_flag: bool | None = None,
        count: bool = False,
    ) -> None:
        name = max(flags, key=len).removeprefix("--")
        super().__init__(
            flags,
            help=help,
            type=type,
            is_flag=is_flag,
            count=count,
            default=None,
            envvar=f"BEXT_{name.replace('-', '_').upper()}",
            show_envvar=True,
            expose_value=False,
            is_eager=True,
            callback=_keep,
        )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.parent is None else None


GLOBALS: list[click.Parameter] = [
    _Global(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        help="The config file; else bext.config.toml here or in a parent folder.",
    ),
    _Global("--url", help="Act on the host at this address; else straight on the store."),
    _Global("--token", help="What the host at --url knows you by."),
    _Global(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        help="How data is written; auto is a table on a terminal, else JSON.",
    ),
    _Global("-q", "--quiet", is_flag=True, help="No notes on stderr."),
    _Global(
        "-v",
        "--verbose",
        count=True,
        help="More logs, and the traceback of an unexpected error; -vv says still more.",
    ),
    _Global(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        help="How logs are written; auto is text on a terminal, else JSON lines.",
    ),
    _Global("--yes", is_flag=True, help="Answer questions with yes."),
]


class Command(click.Command):
    """A command that takes the global options too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *GLOBALS]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if ctx.parent is not None:
            formatter.write_paragraph()
            formatter.write_text(f"The options of `{ctx.find_root().info_name} --help` may stand here too.")
