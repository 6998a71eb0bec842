"""Whatever a plugin does, through the whole host: the table of semantics §2, and healthy runs beside it (P43, P46)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import pytest

from bext_workflow.errors import WorkflowError
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from tests.integration.host.support import CONTEXT_BYTES, Hosted, hosting, plugin, registry, step, workflow

Behaviour: TypeAlias = Callable[[], object]

TWICE = RetryPolicy(max_attempts=2, backoff_ms=0)


class Shop:
    """Packs, then does at `act` whatever the test has it do. `shape`: async or sync hooks."""

    def __init__(self, behaviour: Behaviour, shape: str) -> None:
        self.behaviour = behaviour
        self.acts: list[WorkflowRun] = []
        self.undone: list[str] = []
        self.run_step = self._in_the_loop if shape == "async" else self._in_a_thread

    async def _in_the_loop(self, run: WorkflowRun, step_name: str) -> object:
        await asyncio.sleep(0)
        return self._in_a_thread(run, step_name)

    def _in_a_thread(self, run: WorkflowRun, step_name: str) -> object:
        if step_name == "pack":
            return StepOutcome.Continue({"packed": True})
        self.acts.append(run)
        return self.behaviour()

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.undone.append(step_name)


async def healthy(run: WorkflowRun, step_name: str) -> object:
    return StepOutcome.Continue({step_name: run.attempt})


@asynccontextmanager
async def beside_healthy_runs(shop: Shop) -> AsyncIterator[Hosted]:
    """A host that serves `repeatable` and `once` of the shop; at the end two runs of another plugin have finished."""
    served = registry(
        plugin(
            shop.run_step,
            workflow("pack", step("act", retries=TWICE), "ship", id_="repeatable"),
            workflow("pack", step("act", idempotent=False, retries=TWICE), "ship", id_="once"),
            compensate_step=shop.compensate_step,
        ),
        plugin(healthy, workflow("a", "b", id_="healthy"), name="healthy"),
    )
    async with hosting(served) as hosted:
        before = await hosted.start("healthy")
        yield hosted
        after = await hosted.start("healthy")
        for run_id in (before, after):
            run = await hosted.settled(run_id)
            assert (run.status, run.context) == (WorkflowStatus.COMPLETED, {"a": 1, "b": 1})
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []


def raising(error: BaseException) -> Behaviour:
    def behaviour() -> object:
        raise error

    return behaviour


async def never_awaited() -> object:
    return StepOutcome.Continue()


def odd(value: Json) -> Json:
    """For a field whose declared type is only the plugin's promise."""
    return value


def cyclic() -> Json:
    value: Json = {}
    value["self"] = value
    return value


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


class Unspeakable(Exception):
    """Nobody can say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")

    def __repr__(self) -> str:
        raise SystemExit("no words at all")


TRANSIENT: dict[str, BaseException] = {
    "TimeoutError": TimeoutError("read"),
    "ConnectionResetError": ConnectionResetError("peer"),
}

ILLEGAL_VALUES: dict[str, Json] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "bytes": b"b",
    "tuple": (1,),
    "cycle": cyclic(),
    "key": {1: 2},
    "surrogate": "\ud800",
    "nul": "\0",
    "2^63": 2**63,
    "depth 201": deep(201),
    "too large": "x" * CONTEXT_BYTES,
}

UNKNOWN: dict[str, Behaviour] = {
    "KeyError": raising(KeyError("order")),
    "ExceptionGroup": raising(ExceptionGroup("two", [ValueError("a")])),
    "Unspeakable": raising(Unspeakable()),
    "BaseException": raising(BaseException("bare")),
    "SystemExit": raising(SystemExit(3)),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "GeneratorExit": raising(GeneratorExit()),
    "CancelledError": raising(asyncio.CancelledError()),
    "StopIteration": raising(StopIteration("no result")),
    "None": lambda: None,
    "dict": lambda: {"context_updates": {}},
    "coroutine": never_awaited,
    "updates": lambda: StepOutcome.Continue(odd("updates")),
    "next": lambda: StepOutcome.Continue(next=odd(7)),
    "illegal next": lambda: StepOutcome.Continue(next="nowhere"),
    "next pack": lambda: StepOutcome.Continue(next="pack"),
    "after_ms": lambda: StepOutcome.Retry(after_ms=odd(1.5)),
    "compensate": lambda: StepOutcome.Fail("no", odd(None)),
    "Wait": StepOutcome.Wait,
    "undo_data": lambda: StepOutcome.Continue(undo_data=float("nan")),
    **{name: partial(StepOutcome.Continue, {"v": value}) for name, value in ILLEGAL_VALUES.items()},
}

shapes = pytest.mark.parametrize("shape", ["async", "sync"])


@shapes
@pytest.mark.parametrize("behaviour", UNKNOWN.values(), ids=UNKNOWN)
async def test_an_unknown_end_fails_what_may_be_repeated_and_puts_in_doubt_what_may_not(
    behaviour: Behaviour, shape: str
) -> None:
    """P43, P46, P8: once, for good, with nothing of its updates to be seen."""
    shop = Shop(behaviour, shape)
    async with beside_healthy_runs(shop) as hosted:
        failed = await hosted.settled(await hosted.start("repeatable"))
        assert failed.status is WorkflowStatus.COMPENSATED
        assert (len(shop.acts), shop.undone) == (1, ["pack"])
        assert failed.context == {"packed": True}
        assert failed.failure

        doubtful = await hosted.settled(await hosted.start("once"))
        assert doubtful.status is WorkflowStatus.SUSPENDED
        assert (len(shop.acts), shop.undone) == (2, ["pack"])
        incident = await hosted.incident(doubtful.run_id)
        assert (incident.kind, incident.step, incident.attempt) == (IncidentKind.IN_DOUBT, "act", 1)
        assert incident.actions == [Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO]
        assert incident.reason
        assert incident.evidence


@shapes
@pytest.mark.parametrize("error", TRANSIENT.values(), ids=TRANSIENT)
async def test_a_transient_error_is_retried_unless_the_step_may_not_be(error: BaseException, shape: str) -> None:
    shop = Shop(raising(error), shape)
    async with beside_healthy_runs(shop) as hosted:
        failed = await hosted.settled(await hosted.start("repeatable"))
        assert failed.status is WorkflowStatus.COMPENSATED
        assert [run.attempt for run in shop.acts] == [1, 2]
        assert (failed.failure or "").startswith("retries exhausted: ")
        doubtful = await hosted.settled(await hosted.start("once"))
        assert (doubtful.status, len(shop.acts)) == (WorkflowStatus.SUSPENDED, 3)


@shapes
@pytest.mark.parametrize("workflow_id", ["repeatable", "once"])
async def test_a_definite_end_is_taken_at_its_word_whatever_the_step(workflow_id: str, shape: str) -> None:
    cases: list[tuple[Behaviour, WorkflowStatus, int, list[str]]] = [
        (StepOutcome.Continue, WorkflowStatus.COMPLETED, 2, []),
        (StepOutcome.Retry, WorkflowStatus.COMPENSATED, 2, ["pack"]),
        (lambda: StepOutcome.Fail("declined", True), WorkflowStatus.COMPENSATED, 1, ["pack"]),
        (lambda: StepOutcome.Fail("unknown sku", False), WorkflowStatus.FAILED, 1, []),
        (raising(WorkflowError("503", retryable=True)), WorkflowStatus.COMPENSATED, 2, ["pack"]),
        (raising(WorkflowError("no such card")), WorkflowStatus.COMPENSATED, 1, ["pack"]),
        (raising(WorkflowError.step_not_found("act")), WorkflowStatus.COMPENSATED, 1, ["pack"]),
    ]
    for behaviour, status, acts, undone in cases:
        shop = Shop(behaviour, shape)
        async with hosting(
            registry(
                plugin(
                    shop.run_step,
                    workflow("pack", step("act", idempotent=workflow_id == "repeatable", retries=TWICE), "ship"),
                    compensate_step=shop.compensate_step,
                )
            )
        ) as hosted:
            run = await hosted.settled(await hosted.start())
            assert (run.status, shop.undone) == (status, undone)
            assert len(shop.acts) == acts


async def test_a_cancel_that_the_plugin_swallows_leaves_it_the_last_word() -> None:
    """The attempt's time-out came, and the plugin finished all the same: its outcome is definite."""

    async def stubborn(run: WorkflowRun, step_name: str) -> object:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return StepOutcome.Continue({"finished": True})

    served = registry(plugin(stubborn, workflow(step("act", timeout_ms=1, idempotent=False))))
    async with hosting(served) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.context) == (WorkflowStatus.COMPLETED, {"finished": True})


async def test_a_plugin_that_cancels_its_own_task_harms_its_own_run_only() -> None:
    """P43: to the host it must not look like its own end."""

    def cancels_itself() -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return StepOutcome.Continue()

    shop = Shop(cancels_itself, "async")
    async with beside_healthy_runs(shop) as hosted:
        run = await hosted.settled(await hosted.start("repeatable"))
        assert run.status is WorkflowStatus.COMPLETED


async def test_updates_that_fit_alone_but_not_together_are_refused() -> None:
    """P46: the limit is the context's; the size is counted with what the run began with."""
    half = "x" * (CONTEXT_BYTES * 2 // 3)

    async def grows(run: WorkflowRun, step_name: str) -> object:
        return StepOutcome.Continue({step_name: half})

    async with hosting(registry(plugin(grows))) as hosted:
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.COMPENSATED
        assert run.context == {"pack": half}
        assert "plugin 'shop', workflow 'order', step 'ship': refused: the context would be" in (run.failure or "")


async def test_a_key_that_is_overwritten_again_and_again_never_grows_the_context_over_its_limit() -> None:
    large = "x" * (CONTEXT_BYTES // 2)

    async def overwrites(run: WorkflowRun, step_name: str) -> object:
        return StepOutcome.Continue({"page": large})

    async with hosting(registry(plugin(overwrites, workflow(*"abcdefgh")))) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.context) == (WorkflowStatus.COMPLETED, {"page": large})


async def test_the_context_is_read_only_and_says_so() -> None:
    async def assigns(run: WorkflowRun, step_name: str) -> object:
        context: Json = run.context
        context["a"] = 2
        return StepOutcome.Continue()

    async with hosting(registry(plugin(assigns))) as hosted:
        run = await hosted.settled(await hosted.start(a=1))
        assert (run.status, run.context) == (WorkflowStatus.COMPENSATED, {"a": 1})
        assert "run.context is read-only: return StepOutcome.Continue(context_updates=" in (run.failure or "")


async def test_what_a_plugin_does_to_nested_values_stays_with_it() -> None:
    seen: list[Json] = []

    async def mutates(run: WorkflowRun, step_name: str) -> object:
        items: Json = run.context["items"]
        seen.append(list(items))
        items.append(step_name)
        return StepOutcome.Continue()

    async with hosting(registry(plugin(mutates))) as hosted:
        run = await hosted.settled(await hosted.start(items=[1]))
        assert (run.context, seen) == ({"items": [1]}, [[1], [1]])
