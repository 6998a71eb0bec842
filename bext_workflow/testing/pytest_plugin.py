"""The fixture `harness`, for every test session of an environment that has this distribution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from bext_workflow.model.json import JsonObject
    from bext_workflow.testing.hosted import Harness

OpenHarness: TypeAlias = "Callable[..., AbstractAsyncContextManager[Harness]]"


@pytest.fixture
def harness() -> Iterator[OpenHarness]:
    """`bext_workflow.testing.harness`; where the test fails, pytest shows the journal of every run beside it."""
    # Whoever has no workflow under test is not to pay for the host's import.
    from bext_workflow.testing.hosted import harness as opened  # noqa: PLC0415

    told: list[str] = []

    @asynccontextmanager
    async def telling(
        *plugins: object, config: JsonObject | None = None, scheduled: bool = False
    ) -> AsyncIterator[Harness]:
        async with opened(*plugins, config=config, scheduled=scheduled) as given:
            try:
                yield given
            finally:
                told.extend(str(history) for history in await given.histories())

    yield telling
    print("\n".join(told))  # noqa: T201 - pytest keeps it for tests that fail
