"""The warm processes, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.theatre import Theatre, theatre


@pytest.fixture(scope="session")
def stages() -> Iterator[Theatre]:
    with theatre() as one:
        yield one
