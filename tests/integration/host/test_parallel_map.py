"""Maps in the host: so many at a time, crashes in the middle, the acceptance of fifty items, and ten thousand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import MapDefinition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import ResolveRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.parallel_support import Floor, Workbench, of
from tests.integration.host.support import SETTINGS, hosting, step, workflow

COMPLETED, COMPENSATED, FAILED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.FAILED

NO = StepOutcome.Fail("lost on the way", compensate=True)


def mapped(*, most: int = 10, ship: StepDefinition | None = None) -> WorkflowDefinition:
    """`list` maps `ship` over `parcels`; they meet before `pack`."""
    map_ = MapDefinition(over="parcels", at="ship", join="pack", max_concurrency=most, collect="shipped")
    return workflow(step("list", map=map_), replace(ship or step("ship"), next="pack"), "pack")


def ships(*items: int) -> list[str]:
    return [f"ship[{item}]" for item in items]


async def test_so_many_items_at_a_time() -> None:
    floor = Floor(held=("ship",))
    async with hosting(of(floor, mapped(most=3))) as hosted:
        run_id = await hosted.start(parcels=list(range(7)))
        await floor.until(*ships(0, 1, 2))
        await hosted.quiet()
        assert floor.most_at_once == 3
        floor.release(*ships(1, 2, 3, 4, 5, 6))
        await floor.until_ended(*ships(1, 2, 3, 4, 5, 6))
        floor.release("ship[0]")
        run = await hosted.settled(run_id)
    assert (run.status, floor.most_at_once) == (COMPLETED, 3)
    assert run.context == {
        "parcels": list(range(7)),
        "list": "done",
        "shipped": [{f"ship[{item}]": "done"} for item in range(7)],
        "pack": "done",
    }


async def test_the_one_of_fifty_that_is_released_last_undoes_the_others() -> None:
    """The acceptance of the issue, P10: exactly the 49 others, in the reverse order of their completion."""
    order = [item * 7 % 50 for item in range(50) if item * 7 % 50 != 13]
    floor = Floor({"ship[13]": NO}, held=("ship",))
    async with hosting(of(floor, mapped(most=50))) as hosted:
        run_id = await hosted.start(parcels=list(range(50)))
        await floor.until(*ships(*range(50)))
        for done, item in enumerate(order, 2):
            floor.release(f"ship[{item}]")
            await hosted.until_kind(run_id, "step_completed", times=done)
        floor.release("ship[13]")
        await hosted.reaches(run_id, COMPENSATED)
    assert floor.undone == [*ships(*reversed(order)), "list"]


async def test_one_that_fails_as_the_tenth_undoes_exactly_those_that_completed() -> None:
    """The acceptance of the issue, with `max_concurrency = 5`: four run beside it, end, and count."""
    floor = Floor({"ship[9]": NO}, held=tuple(ships(9, 10, 11, 12, 13)))
    async with hosting(of(floor, mapped(most=5))) as hosted:
        run_id = await hosted.start(parcels=list(range(50)))
        await floor.until(*ships(9, 10, 11, 12, 13))
        floor.release("ship[9]")
        await hosted.until_kind(run_id, "stop_requested")
        for done, item in enumerate((12, 10, 13, 11), 11):
            floor.release(f"ship[{item}]")
            await hosted.until_kind(run_id, "step_completed", times=done)
        await hosted.reaches(run_id, COMPENSATED)
    assert floor.undone[:4] == ships(11, 13, 10, 12)
    assert sorted(floor.undone[4:]) == sorted([*ships(*range(9)), "list"])
    assert len(floor.started) == 1 + 14, "nothing began after the stop"


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_host_dies_in_the_middle_of_a_map(tmp_path: Path, plain: bool) -> None:
    """P3: what was in flight is called again, once, with its key; what had completed is not (P1)."""
    held = tuple(ships(4, 5, 6))
    floor: Floor | Workbench = Workbench(held=held) if plain else Floor(held=held)
    path = tmp_path / "bext.db"
    async with hosting(of(floor, mapped(most=3)), path) as hosted:
        run_id = await hosted.start(parcels=list(range(12)))
        await floor.until(*held)
        hosted.dies()
        floor.release(*held)
    async with hosting(of(floor, mapped(most=3)), path) as hosted:
        run = await hosted.settled(run_id)
        assert (await hosted.kinds(run_id)).count("recovered") == 1
    assert run.status is COMPLETED
    assert {at for at in floor.started if floor.started.count(at) > 1} == set(held)
    assert len(floor.started) == 14 + 3


async def test_a_failed_item_is_retried_and_the_map_goes_on() -> None:
    """§5: `Fail{compensate: false}` leaves in place, `retry` takes the map up; the join opens."""
    floor = Floor({"ship[2]": [StepOutcome.Fail("unknown", compensate=False)]})
    async with hosting(of(floor, mapped(most=2))) as hosted:
        run_id = await hosted.start(parcels=list(range(8)))
        run = await hosted.reaches(run_id, FAILED)
        assert "list" in (run.left_in_place or ())
        await hosted.retry(run_id)
        await hosted.reaches(run_id, COMPLETED)
    assert floor.repeated() == {f"{run_id}:ship[2]": 2}
    assert floor.undone == []


async def test_a_thread_of_one_item_that_outlives_its_time_holds_that_item_alone() -> None:
    """§6: no next attempt of the visit, and no other item of the step is taken for it."""
    bench = Workbench(held=("ship[0]",), again="ship[1]")
    ship = step("ship", timeout_ms=1_000, retries=RetryPolicy(max_attempts=2, backoff_ms=0))
    clock = FakeClock()
    async with hosting(of(bench, mapped(most=2, ship=ship)), clock=clock) as hosted:
        run_id = await hosted.start(parcels=[0, 1, 2])
        await bench.until("ship[0]")
        await hosted.until_kind(run_id, "attempt_failed")
        clock.advance(1_000)
        await hosted.until_kind(run_id, "attempt_failed", times=2)
        assert hosted.host.leaked_threads == 1
        clock.advance(1_000)
        await bench.until("ship[2]")
        await hosted.quiet()
        assert sorted(bench.started) == ["list", "ship[0]", "ship[1]", "ship[1]", "ship[2]"]
        bench.release("ship[0]")
        assert (await hosted.settled(run_id)).status is COMPLETED
    assert bench.started[5:] == ["ship[0]", "pack"]


async def test_a_late_result_is_evidence_for_the_item_that_it_is_of() -> None:
    """§6: both are in doubt over the same step, visit and attempt."""
    bench = Workbench(held=("ship",))
    clock = FakeClock()
    async with hosting(of(bench, mapped(ship=step("ship", timeout_ms=1_000, idempotent=False))), clock=clock) as hosted:
        run_id = await hosted.start(parcels=[0, 1])
        await bench.until("ship[0]", "ship[1]")
        clock.advance(1_000)
        await hosted.until_kind(run_id, "incident_opened", times=2)
        bench.release("ship[1]")
        await hosted.until_kind(run_id, "evidence_attached")
        incidents = {one.idempotency_key: one for one in (await hosted.service.incidents(run_id=run_id)).items}
        bench.release("ship[0]")
        await hosted.until_kind(run_id, "evidence_attached", times=2)
    assert "late" in str(incidents[f"{run_id}:ship[1]"].evidence)
    assert "late" not in str(incidents[f"{run_id}:ship[0]"].evidence)
    assert hosted.telemetry.value(names.THREADS_LEAKED) == 0


async def test_each_item_in_doubt_is_answered_by_itself() -> None:
    floor = Floor({"ship[0]": [KeyError("order")], "ship[1]": [KeyError("order")]})
    async with hosting(of(floor, mapped(ship=step("ship", idempotent=False)))) as hosted:
        run_id = await hosted.start(parcels=[0, 1, 2])
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        for incident in (await hosted.service.incidents(run_id=run_id)).items:
            request = ResolveRequest(action=Action.NOT_DONE, note="looked it up")
            await hosted.service.resolve(incident.id, request)
        await hosted.reaches(run_id, COMPLETED)
    assert floor.started.count("ship[0]") == floor.started.count("ship[1]") == 2


async def lap(items: int, most: int) -> float:
    """The CPU time of a whole map of trivial items, in seconds."""
    floor = Floor()
    began = time.process_time()
    async with hosting(of(floor, mapped(most=most)), settings=replace(SETTINGS, context_bytes=10_000_000)) as hosted:
        run_id = await hosted.start(parcels=list(range(items)))
        run = await hosted.service.result(run_id, wait_ms=60_000)
        assert run.status is COMPLETED
    return time.process_time() - began


async def test_the_cost_of_an_item_does_not_grow_with_the_items() -> None:
    """Five times as many take five times as long, with a wide margin for noise: quadratic would be 25 times."""
    small = await lap(400, most=50)
    assert await lap(2_000, most=50) < 12 * small


@pytest.mark.tier("ci")
@pytest.mark.parametrize("most", [10, 1_000])
async def test_ten_thousand_items(most: int) -> None:
    """Through a real store, each item a commit."""
    small = await lap(1_000, most=most)
    assert await lap(10_000, most=most) < 25 * small
