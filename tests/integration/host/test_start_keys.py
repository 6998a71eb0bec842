"""Starts that may be repeated: the same key answers the same run (semantics §6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.errors import InvalidJson, NotFound, StartKeyReused, UsageError
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import RunQuery, StartRequest
from tests.integration.host.support import CONTEXT_BYTES, Calls, desk, hosting, saga, workflow

KEY = "order-7"


async def test_the_same_key_answers_the_same_run_whatever_its_status(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def waits(_: object) -> object:
        await gate.wait()
        return StepOutcome.Fail("no", True)

    calls = Calls(ship=[waits])
    served = saga(calls)
    async with hosting(served, tmp_path / "bext.db") as hosted:
        request = StartRequest(workflow="order", context={"a": 1, "b": 2}, tags={"x": "y"}, key=KEY)
        first = await hosted.service.start(request)
        assert (first.created, first.run.key, first.driven) == (True, KEY, True)
        await calls.until("ship")
        again = await hosted.service.start(request)
        assert (again.created, again.run.run_id, again.run.status) == (False, first.run.run_id, WorkflowStatus.RUNNING)
        gate.set()
        await hosted.settled(first.run.run_id)
        ended = await hosted.service.start(request)
        assert (ended.created, ended.run.status) == (False, WorkflowStatus.COMPENSATED)
        assert ended.run.context == {"a": 1, "b": 2}
    async with desk(served, tmp_path / "bext.db") as alone:
        assert (await alone.service.start(request)).run.run_id == first.run.run_id
        assert len((await alone.service.list(RunQuery())).items) == 1


async def test_the_order_of_keys_in_the_context_is_no_other_start() -> None:
    async with hosting(saga(Calls())) as hosted:
        first = await hosted.start(key=KEY, a=1, b={"c": 1, "d": 2})
        assert await hosted.start(key=KEY, b={"d": 2, "c": 1}, a=1) == first


@pytest.mark.parametrize(
    ("context", "tags"),
    [({"a": 2}, {}), ({"a": 1, "b": None}, {}), ({"a": 1.0}, {}), ({"a": True}, {}), ({"a": 1}, {"x": "y"}), ({}, {})],
)
async def test_the_same_key_with_another_context_or_tags_is_refused(
    context: dict[str, Json], tags: dict[str, str]
) -> None:
    async with hosting(saga(Calls())) as hosted:
        first = await hosted.start(key=KEY, a=1)
        with pytest.raises(StartKeyReused, match=f"used for run {first} with another context or tags"):
            await hosted.start(key=KEY, tags=tags, **context)
        assert len((await hosted.service.list(RunQuery())).items) == 1


async def test_the_version_is_not_compared_and_a_key_is_its_workflow_s_own() -> None:
    served = saga(Calls(), workflow("pack"), workflow("pack", version=2), workflow("pack", id_="other"))
    async with hosting(served) as hosted:
        first = await hosted.start(key=KEY, version=1)
        assert await hosted.start(key=KEY) == first
        assert await hosted.start(key=KEY, version=2) == first
        assert await hosted.start("other", key=KEY) != first


async def test_many_at_once_with_one_key_are_one_run() -> None:
    """Whether they meet in one batch or not."""
    calls = Calls()
    async with hosting(saga(calls, workflow("pack"))) as hosted:
        started = await asyncio.gather(*(hosted.start(key=KEY, a=1) for _ in range(20)))
        started += [await hosted.start(key=KEY, a=1) for _ in range(3)]
        assert len(set(started)) == 1
        await hosted.settled(started[0])
        assert calls.made == ["pack"]
        assert hosted.host._dispatcher._starting == set()


async def test_many_at_once_with_one_key_and_two_minds_are_one_run_and_refusals() -> None:
    async with hosting(saga(Calls())) as hosted:
        answers = await asyncio.gather(*(hosted.start(key=KEY, a=n % 2) for n in range(10)), return_exceptions=True)
        assert len({answer for answer in answers if isinstance(answer, str)}) == 1
        assert sum(isinstance(answer, StartKeyReused) for answer in answers) == 5


async def test_many_at_once_from_several_programs_are_one_run(tmp_path: Path) -> None:
    served, path = saga(Calls()), tmp_path / "bext.db"

    async def program() -> str:
        async with desk(served, path) as alone:
            return await alone.start(key=KEY, a=1)

    async with hosting(served, path) as hosted:
        started = await asyncio.gather(*(program() for _ in range(5)), *(hosted.start(key=KEY, a=1) for _ in range(5)))
        assert len(set(started)) == 1


async def test_without_a_key_each_start_is_a_run_of_its_own() -> None:
    async with hosting(saga(Calls())) as hosted:
        assert await hosted.start(a=1) != await hosted.start(a=1)


@pytest.mark.parametrize(
    ("request_", "error", "match"),
    [
        (StartRequest(workflow="nothing"), NotFound, "no workflow 'nothing' is served"),
        (StartRequest(workflow="order", version=9), NotFound, "no workflow 'order@9' is served"),
        (StartRequest(workflow="order", key=""), UsageError, "the start key has 0 characters"),
        (StartRequest(workflow="order", key="x" * 201), UsageError, "the start key has 201 characters"),
        (StartRequest(workflow="order", key="\ud800"), InvalidJson, "lone surrogate"),
        (StartRequest(workflow="order", tags={str(n): "" for n in range(51)}), UsageError, "51 tags"),
        (StartRequest(workflow="order", context={"a": float("nan")}), InvalidJson, r"\$\.a: nan"),
        (StartRequest(workflow="order", context={"a": "x" * CONTEXT_BYTES}), InvalidJson, "over the limit"),
    ],
)
async def test_a_start_that_makes_no_sense_is_refused_in_words(
    request_: StartRequest, error: type[Exception], match: str
) -> None:
    calls = Calls()
    async with hosting(saga(calls)) as hosted:
        with pytest.raises(error, match=match):
            await hosted.service.start(request_)
        assert (await hosted.service.list(RunQuery())).items == []
        assert hosted.host._dispatcher._starting == set()
