"""Both shapes of a hook, for every test that asks for one."""

from __future__ import annotations

import pytest

from tests.unit.host.calling import Shaped, in_a_thread, in_the_loop


@pytest.fixture(params=[in_the_loop, in_a_thread])
def shaped(request: pytest.FixtureRequest) -> Shaped:
    """Makes a hook of a behaviour: `async def`, which the loop runs, or plain `def`, which a thread does."""
    shape: Shaped = request.param
    return shape
