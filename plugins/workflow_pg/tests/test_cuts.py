"""Connections that are cut at each place where it makes a difference.

The host lives on, and so does its lease: whatever is lost on the way, no call is made twice, none is left out, and the
journal tells each run once.
"""

from __future__ import annotations

from collections import Counter

import pytest

from plugins.workflow_pg.tests.proxy import Cut
from plugins.workflow_pg.tests.wired import wired

pytestmark = [pytest.mark.tier("ci"), pytest.mark.timeout(400)]

MOST_OF_A_NAME = 3


@pytest.mark.parametrize(
    ("scene", "named"),
    [
        ("started here", {"create", "advance"}),
        ("started elsewhere", {"claim", "advance", "COMMIT", "load"}),
        ("rolled back", {"create", "advance"}),
        ("signalled", {"create", "advance", "lock_run", "post", "claim", "COMMIT"}),
    ],
)
async def test_a_connection_is_cut_before_and_after_every_statement(server: str, scene: str, named: set[str]) -> None:
    """P6: nothing is lost or repeated, whether the database has had the statement or not."""
    async with wired(server) as here:
        await here.drive(scene)  # connections are made, and statements prepared
        calm = await here.drive(scene)
        exchanges = Counter(here.proxy.exchanges)
        cuts = [
            Cut(name, nth, after)
            for name, times in exchanges.items()
            for nth in range(1, min(times, MOST_OF_A_NAME) + 1)
            for after in (False, True)
        ]
        made = Counter[tuple[str, bool]]()
        for cut in cuts:
            assert await here.drive(scene, cut) == calm, cut
            made[cut.name, cut.after] += here.proxy.has_cut

        assert {(name, after) for name in named for after in (False, True)} <= set(+made)
        assert here.errand.repeated() == {}
        here.proxy.count()
        assert await here.drive(scene) == calm
