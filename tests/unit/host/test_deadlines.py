"""One heap and one timer for all time-outs."""

from __future__ import annotations

from collections.abc import Callable

from bext_workflow.host.deadlines import Deadlines
from bext_workflow.testing.clock import START, FakeClock, FakeTimer


class CountingClock(FakeClock):
    """Remembers the timers that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[FakeTimer] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        timer = super().call_later(delay_ms, callback)
        self.asked.append(timer)
        return timer

    @property
    def live(self) -> int:
        return sum(timer.callback is not None for timer in self.asked)


async def test_each_calls_back_once_at_its_time() -> None:
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[int]()
    for delay in (500, 100, 300, 100):
        deadlines.arm(delay, lambda: fired.append(clock.now() - START))
    clock.advance(10_000)
    assert fired == [100, 100, 300, 500]


async def test_a_cancelled_one_never_calls_back() -> None:
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[str]()
    first = deadlines.arm(100, lambda: fired.append("first"))
    deadlines.arm(200, lambda: fired.append("second"))
    first.cancel()
    first.cancel()
    clock.advance(1_000)
    assert fired == ["second"]


async def test_cancelling_after_it_fired_harms_nobody() -> None:
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[str]()
    first = deadlines.arm(100, lambda: fired.append("first"))
    clock.advance(100)
    first.cancel()
    deadlines.arm(100, lambda: fired.append("second"))
    clock.advance(100)
    assert fired == ["first", "second"]


async def test_one_timer_serves_them_all_and_an_earlier_deadline_moves_it() -> None:
    clock = CountingClock()
    deadlines, fired = Deadlines(clock), list[int]()
    for delay in (400, 300, 200, 500, 600):
        deadlines.arm(delay, lambda: fired.append(clock.now() - START))
        assert clock.live == 1
    clock.advance(250)
    assert (fired, clock.live) == ([200], 1)
    clock.advance(10_000)
    assert (fired, clock.live) == ([200, 300, 400, 500, 600], 0)


async def test_a_callback_may_arm_and_cancel_others() -> None:
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[str]()
    doomed = deadlines.arm(200, lambda: fired.append("doomed"))

    def first() -> None:
        fired.append("first")
        doomed.cancel()
        deadlines.arm(50, lambda: fired.append("child"))

    deadlines.arm(100, first)
    clock.advance(1_000)
    assert fired == ["first", "child"]


async def test_attempts_that_end_in_time_leave_no_heap_behind() -> None:
    """A time-out is nearly always taken back: 10,000 of them must not be kept for a minute each."""
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[str]()
    deadlines.arm(60_000, lambda: fired.append("the one that counts"))
    for _ in range(10_000):
        deadlines.arm(30_000, lambda: fired.append("never")).cancel()
    assert len(deadlines._heap) < 200
    clock.advance(60_000)
    assert fired == ["the one that counts"]


async def test_a_jump_of_the_wall_clock_moves_no_deadline() -> None:
    """P22"""
    clock = FakeClock()
    deadlines, fired = Deadlines(clock), list[float]()
    deadlines.arm(1_000, lambda: fired.append(clock.monotonic()))
    clock.jump_wall(3_600_000)
    clock.advance(999)
    assert fired == []
    clock.advance(1)
    assert fired == [1.0]
