"""The clock that is shipped for tests: if it is wrong, so is what they say."""

from __future__ import annotations

import asyncio

import pytest

from bext_workflow.testing.clock import START, FakeClock
from tests.unit.host.support import within


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    fired: list[int] = []
    clock.call_later(10, lambda: fired.append(1))
    for _ in range(100):
        await asyncio.sleep(0)
    assert (clock.now(), clock.monotonic(), fired) == (START, 0.0, [])


async def test_timers_fire_in_order_each_at_its_own_time() -> None:
    clock = FakeClock()
    fired: list[tuple[str, int]] = []

    def note(name: str) -> None:
        fired.append((name, clock.now() - START))

    clock.call_later(30, lambda: note("third"))
    clock.call_later(10, lambda: note("first"))
    clock.call_later(20, lambda: note("second"))
    clock.call_later(20, lambda: note("second too"))
    clock.call_later(41, lambda: note("never"))
    clock.advance(40)
    assert fired == [("first", 10), ("second", 20), ("second too", 20), ("third", 30)]
    assert clock.now() == START + 40


async def test_a_timer_that_is_set_by_a_timer_fires_in_the_same_stretch() -> None:
    clock = FakeClock()
    fired: list[int] = []

    def again() -> None:
        clock.call_later(10, lambda: fired.append(clock.now() - START))

    clock.call_later(10, again)
    clock.advance(30)
    assert fired == [20]


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock = FakeClock()
    fired: list[int] = []
    timer = clock.call_later(10, lambda: fired.append(1))
    timer.cancel()
    clock.advance(20)
    timer.cancel()
    assert fired == []


async def test_the_wall_clock_jumps_alone() -> None:
    """P22: a wait inside the process neither ends nor grows by it."""
    clock = FakeClock()
    fired: list[int] = []
    clock.call_later(10, lambda: fired.append(clock.now()))
    clock.jump_wall(-3_600_000)
    assert (clock.now(), clock.monotonic(), fired) == (START - 3_600_000, 0.0, [])
    clock.advance(10)
    assert fired == [START - 3_600_000 + 10]


async def test_autojump_takes_sleepers_to_their_times() -> None:
    clock = FakeClock()
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, ms: int) -> None:
        await clock.sleep(ms)
        woken.append((name, clock.now() - START))

    async with within(), clock.autojump():
        await asyncio.gather(sleeper("long", 86_400_000), sleeper("short", 200), sleeper("none", 0))
    assert woken == [("none", 0), ("short", 200), ("long", 86_400_000)]


async def test_autojump_waits_for_those_who_are_at_work() -> None:
    """A task that goes on by itself, and one that waits for a thread, both come before any timer."""
    clock = FakeClock()
    fired: list[int] = []
    clock.call_later(10, lambda: fired.append(clock.now() - START))
    let_go = asyncio.Event()
    async with within(), clock.autojump():
        with clock.held():
            for _ in range(200):
                await asyncio.sleep(0)
            await asyncio.to_thread(lambda: None)
            assert fired == []
        for _ in range(200):
            clock.now()
            await asyncio.sleep(0)
        assert fired == []
        clock.call_later(20, let_go.set)
        await let_go.wait()
    assert fired == [10]


async def test_autojump_ends_with_its_block() -> None:
    clock = FakeClock()
    async with within(), clock.autojump():
        await clock.sleep(5)
    clock.call_later(10, lambda: pytest.fail("nobody moves the time any more"))
    for _ in range(200):
        await asyncio.sleep(0)
    assert clock.now() == START + 5
