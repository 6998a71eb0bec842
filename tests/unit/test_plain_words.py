"""Where a definition takes one of a few words, a plain one is as good as its enum, and another one is refused."""

from __future__ import annotations

import msgspec
import pytest

from bext_workflow.errors import DefinitionError
from bext_workflow.model.fork import JoinDefinition, OnConflict
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.policy import OnExhausted, RetryPolicy


def fields(**values: Json) -> JsonObject:
    """As a plugin's author may write them who does not run a type checker."""
    return values


def test_a_plain_word_means_its_enum() -> None:
    assert msgspec.convert({"at": "d", "on_conflict": "last"}, JoinDefinition).on_conflict is OnConflict.LAST
    assert JoinDefinition(**fields(at="d", on_conflict="last")).on_conflict is OnConflict.LAST
    assert RetryPolicy(**fields(on_exhausted="incident")).on_exhausted is OnExhausted.INCIDENT


def test_another_word_is_refused() -> None:
    with pytest.raises(DefinitionError, match="on_conflict is 'first'"):
        JoinDefinition(**fields(at="d", on_conflict="first"))
    with pytest.raises(DefinitionError, match="on_exhausted is 'retry'"):
        RetryPolicy(**fields(on_exhausted="retry"))
