"""Where log events go: stderr, coloured lines for a person on a terminal, JSON lines for everything else."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from bext_workflow.model.json import Json, dumps


def logger_for(log_format: str, verbosity: int) -> FilteringBoundLogger:
    """`log_format`: auto, console or json. `verbosity`: -1 quiet (errors), 0 info, 1 debug."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    level = {-1: logging.ERROR, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shape: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_line)]
    )
    bound: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[*shared, *shape],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    return bound


def _line(event: Json, **_: Json) -> str:
    return dumps({key: value if _is_json(value) else str(value) for key, value in event.items()}).decode()


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | dict)
