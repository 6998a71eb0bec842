"""Where log events go: stderr, lines to be read for a person on a terminal, JSON lines for everything else."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from bext_workflow.faces.cli.text import one_line, wants_colour
from bext_workflow.model.json import Json, dumps


def logger_for(log_format: str, verbosity: int) -> FilteringBoundLogger:
    """`log_format`: auto, console or json. `verbosity`: -1 quiet (errors), 0 info, 1 debug."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    level = {-1: logging.ERROR, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    bound: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *(_for_people() if console else _for_programs()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    return bound


def _for_people() -> list[Processor]:
    """Local time, nothing padded, and no values of variables in tracebacks: secrets may be among them."""
    return [
        structlog.processors.TimeStamper(fmt="%m-%d %H:%M:%S", utc=False),
        _inert,
        structlog.dev.ConsoleRenderer(
            colors=wants_colour(sys.stderr),
            sort_keys=False,
            pad_event_to=0,
            pad_level=False,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _for_programs() -> list[Processor]:
    return [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_line),
    ]


def _inert(logger: object, method: str, event: MutableMapping[str, Json]) -> MutableMapping[str, Json]:
    """What plugins say is not to move a terminal's cursor."""
    return {key: one_line(value) if isinstance(value, str) else value for key, value in event.items()}


def _line(event: Json, **_: Json) -> str:
    return dumps({key: value if _is_json(value) else str(value) for key, value in event.items()}).decode()


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | dict)
