from __future__ import annotations

import pytest

from bext_workflow import errors
from bext_workflow.faces.cli.exits import Exit, of_error, of_status
from bext_workflow.model.status import WorkflowStatus

OF_ERRORS = {
    "ConfigError": 3,
    "DefinitionError": 3,
    "PluginError": 3,
    "InvalidJson": 2,
    "UsageError": 2,
    "NotFound": 4,
    "Conflict": 5,
    "StartKeyReused": 5,
    "StoreBusy": 5,
    "Gone": 5,
    "Unavailable": 6,
    "StoreUnavailable": 6,
    "NotMigrated": 6,
    "TooManyRequests": 6,
    "NotAllowed": 7,
    "Unauthenticated": 7,
}


def error_classes(form: type[errors.BextError]) -> set[type[errors.BextError]]:
    below = form.__subclasses__()
    return set(below).union(*map(error_classes, below))


def own_errors() -> list[type[errors.BextError]]:
    own = (form for form in error_classes(errors.BextError) if form.__module__ == errors.__name__)
    return sorted(own, key=lambda form: form.__name__)


@pytest.mark.parametrize("form", own_errors())
def test_every_error_has_its_exit_code(form: type[errors.BextError]) -> None:
    assert of_error(form("no")) == OF_ERRORS[form.__name__]


def test_every_status_has_its_exit_code() -> None:
    assert {status.value: int(of_status(status)) for status in WorkflowStatus} == {
        "COMPLETED": 0,
        "COMPENSATED": 10,
        "FAILED": 11,
        "CANCELLED": 12,
        "PENDING": 13,
        "RUNNING": 13,
        "WAITING": 13,
        "COMPENSATING": 13,
        "SUSPENDED": 14,
    }


def test_the_codes_are_those_of_the_interface() -> None:
    assert [int(code) for code in Exit] == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 130]
