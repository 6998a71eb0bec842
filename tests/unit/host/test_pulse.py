"""The heartbeats of one attempt, however many there are and from wherever they come."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.pulse import RECORD_EVERY_MS, Pulse
from bext_workflow.model.json import Json
from bext_workflow.testing.clock import FakeClock

MANY = 1_000


class Attempt:
    """An attempt that has begun, of 1 s; whoever writes its details is told, and writes when the test says so."""

    def __init__(self, known: Json = None) -> None:
        self.clock = FakeClock()
        self.deadlines = Deadlines(self.clock)
        self.pulse = Pulse(self.clock, self.deadlines, 500, known)
        self.ends: list[str] = []
        self.told = 0
        self.pulse.begin(1_000, self.ends.append)
        self.pulse.when_news(self._tell)

    def _tell(self) -> None:
        self.told += 1

    async def write(self) -> Json:
        """Writes what there is, of which it must have been told."""
        await asyncio.sleep(0)
        assert self.told == 1
        self.told = 0
        detail = self.pulse.news()
        self.pulse.written(detail)
        return detail


async def test_a_flood_from_threads_wakes_the_loop_once_and_moves_no_deadline() -> None:
    attempt = Attempt()
    with ThreadPoolExecutor(4) as pool:
        for number in range(MANY):
            pool.submit(attempt.pulse.beat, number)
    await asyncio.sleep(0)
    assert (attempt.told, len(attempt.deadlines._heap)) == (1, 1)
    assert await attempt.write() is not None


async def test_what_was_said_meanwhile_has_its_turn_a_second_after_the_last_write() -> None:
    attempt = Attempt()
    attempt.pulse.beat(1)
    assert await attempt.write() == 1
    attempt.pulse.beat(2)
    attempt.pulse.beat(3)
    await asyncio.sleep(0)
    attempt.clock.advance(RECORD_EVERY_MS - 1)
    assert attempt.told == 0
    attempt.clock.advance(1)
    assert await attempt.write() == 3


async def test_what_is_said_while_a_detail_is_being_written_is_not_forgotten() -> None:
    attempt = Attempt()
    attempt.pulse.beat(1)
    await asyncio.sleep(0)
    writing = attempt.pulse.news()
    attempt.pulse.beat(2)
    attempt.pulse.written(writing)
    attempt.told = 0
    attempt.clock.advance(RECORD_EVERY_MS)
    assert await attempt.write() == 2


async def test_what_is_taken_back_before_it_was_written_is_no_news_and_the_next_one_is() -> None:
    attempt = Attempt(known=1)
    attempt.pulse.beat(2)
    attempt.pulse.beat(1)
    await asyncio.sleep(0)
    assert (attempt.told, attempt.pulse.news()) == (1, None)
    attempt.told = 0
    attempt.pulse.beat(2)
    assert await attempt.write() == 2


async def test_the_end_leaves_what_nobody_has_written_and_no_deadline() -> None:
    attempt = Attempt()
    attempt.pulse.beat(1)
    await attempt.write()
    attempt.pulse.beat(2)
    await asyncio.sleep(0)
    attempt.pulse.cancel()
    attempt.pulse.beat(3)
    attempt.clock.advance(10_000)
    assert (attempt.pulse.news(), attempt.told, attempt.ends) == (2, 0, [])


async def test_an_end_that_was_put_off_says_what_was_missing() -> None:
    attempt = Attempt()
    attempt.clock.advance(400)
    attempt.pulse.beat(None)
    attempt.clock.advance(500)
    attempt.pulse.beat(None)
    attempt.clock.advance(499)
    assert attempt.ends == []
    attempt.clock.advance(1)
    assert attempt.ends == ["the attempt has sent no heartbeat for heartbeat_ms = 500"]


async def test_a_heartbeat_takes_no_time_away() -> None:
    attempt = Attempt()
    attempt.pulse.beat(None)
    attempt.clock.advance(999)
    assert attempt.ends == []
    attempt.clock.advance(1)
    assert attempt.ends == ["the attempt took longer than timeout_ms = 1000"]


async def test_an_attempt_without_a_bound_has_none() -> None:
    clock = FakeClock()
    pulse = Pulse(clock, Deadlines(clock), 500, None)
    ends: list[str] = []
    pulse.begin(0, ends.append)
    pulse.beat(None)
    clock.advance(3_600_000)
    assert ends == []
