"""The exit codes, all of them, and what leads to each (reference "Exit codes")."""

from __future__ import annotations

from enum import IntEnum

from bext_workflow import errors
from bext_workflow.model.status import WorkflowStatus


class Exit(IntEnum):
    """From 10 on they tell how a run went; only commands that wait for one use those."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    INVALID = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    NOT_ALLOWED = 7
    COMPENSATED = 10
    FAILED = 11
    CANCELLED = 12
    STILL_RUNNING = 13
    SUSPENDED = 14
    INTERRUPTED = 130


_OF_ERROR: dict[type[errors.BextError], Exit] = {
    errors.ConfigError: Exit.INVALID,
    errors.DefinitionError: Exit.INVALID,
    errors.PluginError: Exit.INVALID,
    errors.InvalidJson: Exit.USAGE,
    errors.UsageError: Exit.USAGE,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Conflict: Exit.CONFLICT,
    errors.Gone: Exit.CONFLICT,
    errors.Unavailable: Exit.UNAVAILABLE,
    errors.NotAllowed: Exit.NOT_ALLOWED,
}

_OF_STATUS: dict[WorkflowStatus, Exit] = {
    WorkflowStatus.PENDING: Exit.STILL_RUNNING,
    WorkflowStatus.RUNNING: Exit.STILL_RUNNING,
    WorkflowStatus.WAITING: Exit.STILL_RUNNING,
    WorkflowStatus.SUSPENDED: Exit.SUSPENDED,
    WorkflowStatus.COMPENSATING: Exit.STILL_RUNNING,
    WorkflowStatus.COMPLETED: Exit.OK,
    WorkflowStatus.COMPENSATED: Exit.COMPENSATED,
    WorkflowStatus.FAILED: Exit.FAILED,
    WorkflowStatus.CANCELLED: Exit.CANCELLED,
}


def of_error(error: errors.BextError) -> Exit:
    """The code of an error, by the nearest of its classes that has one."""
    for form in type(error).__mro__:
        if form in _OF_ERROR:
            return _OF_ERROR[form]
    return Exit.UNEXPECTED


def of_status(status: WorkflowStatus) -> Exit:
    """The code of a command that has waited for a run and left it in this status."""
    return _OF_STATUS[status]
