"""Branches in the host: their calls run side by side, and the run still has one journal and one mailbox."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from bext_workflow.errors import WorkflowError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition, Need
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.parallel_support import Floor, Workbench, of
from tests.integration.host.support import SETTINGS, desk, hosting, jumping, step, workflow

COMPLETED, COMPENSATED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED
UNHURRIED = replace(SETTINGS, drain_timeout_ms=10_000)


def forked(*branches: StepDefinition, need: Need = "all") -> WorkflowDefinition:
    """`start` forks into the branches, each of one step, which meet before `pack`."""
    names = tuple(branch.name for branch in branches)
    start = step("start", next=names, join=JoinDefinition(at="pack", need=need))
    return workflow(start, *(replace(branch, next="pack") for branch in branches), "pack")


PAIR = forked(step("left"), step("right"))


async def test_async_hooks_run_side_by_side() -> None:
    """Each waits until the other has begun: one after the other they never would."""
    floor = Floor(held=("left", "right"))
    async with hosting(of(floor, PAIR)) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        floor.release("left", "right")
        run = await hosted.settled(run_id)
    assert run.status is COMPLETED
    assert run.context == {"start": "done", "left": "done", "right": "done", "pack": "done"}
    assert floor.started == ["start", "left", "right", "pack"]


async def test_plain_hooks_run_side_by_side_in_threads() -> None:
    bench = Workbench(held=("left", "right"))
    async with hosting(of(bench, PAIR)) as hosted:
        run_id = await hosted.start()
        await bench.until("left", "right")
        bench.release("left", "right")
        run = await hosted.settled(run_id)
    assert run.status is COMPLETED
    assert bench.threads["left"] != bench.threads["right"]


async def test_a_slow_branch_does_not_delay_the_retry_of_another() -> None:
    """The slow one ends only once the other has been called again."""
    again = RetryPolicy(max_attempts=2, backoff_ms=5)
    floor = Floor({"right": [StepOutcome.Retry(reason="busy")]}, held=("left",))
    async with hosting(of(floor, forked(step("left"), step("right", retries=again)))) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        await hosted.until_kind(run_id, "step_completed", times=2)
        assert floor.started.count("right") == 2
        floor.release("left")
        assert (await hosted.settled(run_id)).status is COMPLETED


async def test_a_slow_branch_does_not_delay_the_timer_of_another() -> None:
    """P21: on a clock that passes only when everybody waits for it."""
    clock = FakeClock()
    floor = Floor(held=("left",))
    nap = StepDefinition(name="nap", sleep_ms=700)
    async with jumping(of(floor, forked(step("left", timeout_ms=60_000), nap)), clock) as hosted:
        began = clock.now()
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "wait_ended")
        assert clock.now() - began < 60_000
        floor.release("left")
        assert (await hosted.settled(run_id)).status is COMPLETED


async def test_a_plain_hook_that_waits_for_a_thread_has_not_begun() -> None:
    """Its intent comes with the thread: till then nothing can have acted, and a stop lets it settle uncalled."""
    bench = Workbench(held=("left",))
    both = forked(step("left"), step("right", idempotent=False))
    async with hosting(of(bench, both), settings=replace(SETTINGS, threads=1)) as hosted:
        run_id = await hosted.start()
        await bench.until("left")
        await hosted.quiet()
        assert "attempt_started" not in await hosted.kinds(run_id)
        await hosted.cancel(run_id)
        await hosted.until_kind(run_id, "branch_settled")
        bench.release("left")
        assert (await hosted.settled(run_id)).status is COMPENSATED
    assert bench.started == ["start", "left"]
    assert bench.undone == ["left", "start"]


async def test_cancel_now_interrupts_all_running_attempts() -> None:
    """§5: their effects are unknown; the one that must not be repeated is a person's question."""
    floor = Floor(held=("left", "right", "third"))
    three = forked(step("left"), step("right", compensate_on_failure=True), step("third", idempotent=False))
    async with hosting(of(floor, three)) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right", "third")
        await hosted.cancel(run_id, now=True)
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        assert sorted(floor.interrupted) == ["left", "right", "third"]
        await hosted.resolve(run_id, Action.FAIL_UNDO)
        await hosted.reaches(run_id, COMPENSATED)
    assert sorted(floor.undone[:2]) == ["right", "third"]
    assert floor.undone[2:] == ["start"]


async def test_a_cancel_waits_for_all_running_attempts() -> None:
    """§5: their results count, and nothing new starts."""
    floor = Floor(held=("left", "right"))
    async with hosting(of(floor, PAIR)) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        await hosted.cancel(run_id)
        await hosted.until_kind(run_id, "stop_requested")
        floor.release("right")
        await floor.until_ended("right")
        await hosted.quiet()
        assert floor.undone == []
        floor.release("left")
        run = await hosted.reaches(run_id, COMPENSATED)
    assert floor.undone == ["left", "right", "start"]
    assert run.failure is not None


async def test_a_cancel_that_arrives_while_an_end_is_written_comes_first() -> None:
    """§11, Stale: the end is decided anew, and its branch goes nowhere."""
    floor = Floor(held=("left", "right"))
    async with hosting(of(floor, PAIR)) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        hosted.store.close_gate()
        floor.release("left", "right")
        await hosted.store.reached()
        await hosted.cancel(run_id)
        hosted.store.open_gate()
        await hosted.reaches(run_id, COMPENSATED)
        kinds = await hosted.kinds(run_id)
    assert kinds.index("stop_requested") < kinds.index("step_completed", 2)
    assert "join_opened" not in kinds
    assert sorted(floor.undone[:2]) == ["left", "right"]


async def test_a_drain_lets_all_running_branches_end(tmp_path: Path) -> None:
    """P50: what they return is durable; the next host goes on from there, and nothing is made twice."""
    floor = Floor(held=("left", "right"))
    path = tmp_path / "bext.db"
    async with hosting(of(floor, PAIR), path, settings=UNHURRIED) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        hosted.host.drain()
        floor.release("right")
        await floor.until_ended("right")
        floor.release("left")
    async with desk(of(floor, PAIR), path) as alone:
        assert (await alone.kinds(run_id)).count("step_completed") == 3
        (row,) = await alone.store.find(run_id)
        assert row.owner is None
    async with hosting(of(floor, PAIR), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
        assert "recovered" not in await hosted.kinds(run_id)
    assert floor.started == ["start", "left", "right", "pack"]


async def test_a_drain_does_not_wait_for_calls_that_have_no_thread_yet(tmp_path: Path) -> None:
    bench = Workbench(held=("left",))
    path = tmp_path / "bext.db"
    settings = replace(UNHURRIED, threads=1)
    async with hosting(of(bench, PAIR), path, settings=settings) as hosted:
        run_id = await hosted.start()
        await bench.until("left")
        hosted.host.drain()
        bench.release("left")
    assert bench.started == ["start", "left"]
    async with hosting(of(bench, PAIR), path, settings=settings) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
    assert sorted(bench.started) == ["left", "pack", "right", "start"]


async def test_a_host_dies_with_two_branches_at_work(tmp_path: Path) -> None:
    """P3, P4: each is in flight: what may be repeated is, under its key; the other is in doubt."""
    floor = Floor(held=("left", "right"))
    both = forked(step("left"), step("right", idempotent=False))
    path = tmp_path / "bext.db"
    async with hosting(of(floor, both), path) as hosted:
        run_id = await hosted.start()
        await floor.until("left", "right")
        hosted.dies()
    floor.release("left", "right")
    async with hosting(of(floor, both), path) as hosted:
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        await hosted.resolve(run_id, Action.DONE, updates={"right": "found"})
        run = await hosted.reaches(run_id, COMPLETED)
    assert floor.repeated() == {f"{run_id}:left": 2}
    assert run.context == {"start": "done", "left": "done", "right": "found", "pack": "done"}


async def test_two_waits_share_the_signals_in_order() -> None:
    """§9: of opening; the run is a row as long as only they are left, and no memory."""
    asks = [StepDefinition(name=name, wait=WaitDefinition(signal="go", into=name)) for name in ("one", "two")]
    floor = Floor()
    async with hosting(of(floor, forked(*asks, step("work")))) as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
        (row,) = await hosted.store.find(run_id)
        assert (row.owner, row.wake_at) == (None, None)
        for payload in ("first", "second"):
            await hosted.service.signal(run_id, SignalRequest(name="go", payload=payload))
        run = await hosted.reaches(run_id, COMPLETED)
    assert run.context == {"start": "done", "one": "first", "two": "second", "work": "done", "pack": "done"}


async def test_a_pause_holds_all_branches() -> None:
    floor = Floor(held=("left",))
    async with hosting(of(floor, forked(step("left"), StepDefinition(name="nap", sleep_ms=20)))) as hosted:
        run_id = await hosted.start()
        await floor.until("left")
        await hosted.service.pause(run_id, "have a look")
        await hosted.until_kind(run_id, "run_paused")
        floor.release("left")
        await hosted.until_kind(run_id, "step_completed", times=2)
        assert await hosted.status(run_id) is WorkflowStatus.SUSPENDED
        await hosted.service.resume(run_id, "have a look")
        assert (await hosted.reaches(run_id, COMPLETED)).status is COMPLETED


class TestAny:
    """A race: the first wins, the loser is undone before the join opens."""

    RACE = forked(step("left"), step("right"), need="any")

    async def test_the_loser_ends_and_is_undone(self) -> None:
        floor = Floor(held=("left", "right"))
        async with hosting(of(floor, self.RACE)) as hosted:
            run_id = await hosted.start()
            await floor.until("left", "right")
            floor.release("right")
            await hosted.until_kind(run_id, "join_decided")
            await hosted.quiet()
            assert "pack" not in floor.started, "the loser runs still"
            floor.release("left")
            run = await hosted.settled(run_id)
        assert (run.status, floor.undone) == (COMPLETED, ["left"])
        assert run.context == {"start": "done", "right": "done", "pack": "done"}

    async def test_the_undo_of_the_loser_fails_and_is_retried(self) -> None:
        """§7: it suspends the run until a person has answered."""
        floor = Floor({"undo_left": [WorkflowError("no way back")]}, held=("left",))
        async with hosting(of(floor, self.RACE)) as hosted:
            run_id = await hosted.start()
            await floor.until("left")
            await hosted.until_kind(run_id, "join_decided")
            floor.release("left")
            run = await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
            assert run.holds
            await hosted.resolve(run_id, Action.RETRY)
            await hosted.reaches(run_id, COMPLETED)
        assert floor.undone == ["left", "left"]

    async def test_cancel_now_does_not_interrupt_the_undo_of_a_loser(self) -> None:
        """§5: undo ignores cancel."""
        floor = Floor(held=("left", "undo_left"))
        async with hosting(of(floor, self.RACE)) as hosted:
            run_id = await hosted.start()
            await hosted.until_kind(run_id, "join_decided")
            floor.release("left")
            await floor.until("undo_left")
            await hosted.cancel(run_id, now=True)
            await hosted.passed_on(run_id)
            floor.release("undo_left")
            await hosted.reaches(run_id, COMPENSATED)
        assert floor.interrupted == []
        assert floor.undone == ["left", "right", "start"]
