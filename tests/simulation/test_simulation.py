"""Simulated hosts over the embedded store: deaths, lost commits and lost answers, and the ends that must not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.trouble import STORM
from tests.simulation.world import SqlitePlace, World, fair, faults, replayable

FAST, MORE = range(3), range(3, 15)


async def simulate(seed: int, folder: Path) -> None:
    with replayable("tests.simulation.world", seed):
        calm, stormy = folder / "calm", folder / "stormy"
        calm.mkdir()
        stormy.mkdir()
        expected = await fair(seed, calm)
        world = await World(seed, SqlitePlace(stormy), STORM).live()
        assert faults(world, expected) == []


@pytest.mark.parametrize("seed", FAST)
async def test_runs_end_as_in_fair_weather(seed: int, tmp_path: Path) -> None:
    """P1, P4, P6, P16: one host after the other."""
    await simulate(seed, tmp_path)


@pytest.mark.tier("ci")
@pytest.mark.parametrize("seed", MORE)
async def test_more_runs_end_as_in_fair_weather(seed: int, tmp_path: Path) -> None:
    """P1, P4, P6, P16: the same with other seeds."""
    await simulate(seed, tmp_path)
