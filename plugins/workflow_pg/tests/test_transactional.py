"""Transactional steps (semantics §6): what they did is there with their checkpoint, or never was."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import asyncpg
import pytest
from msgspec.structs import replace

from bext_workflow import StepOutcome, WorkflowError, WorkflowRun
from bext_workflow.core.inbox import write_act
from bext_workflow.core.input import Signalled
from bext_workflow.errors import DefinitionError
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.transaction import Database
from bext_workflow.ports.store import Act, Loaded
from bext_workflow.service.protocols import CancelRequest, SignalRequest
from bext_workflow_pg.store.store import STEPS
from plugins.workflow_pg.tests.databases import ask, run_sql
from plugins.workflow_pg.tests.hosted import hosting, opened
from plugins.workflow_pg.tests.payments import PAY, Payments, Work, kinds, made, paid, payments
from tests.integration.host import support
from tests.unit.host.support import within

IN_ONE = "SELECT (SELECT xact FROM payments) = (SELECT xact FROM journal WHERE kind = 'step_completed')"

COMPLETED, COMPENSATED, CANCELLED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.CANCELLED


@pytest.fixture
async def url(url: str) -> str:
    """A schema with the plugin's own table in it."""
    await made(url)
    return url


async def test_effect_and_checkpoint_are_one_transaction(url: str) -> None:
    pays = Payments()
    async with hosting(url, pays.served()) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, run.context) == (COMPLETED, {"pay": 1})
    assert await payments(url) == 1
    assert await ask(url, IN_ONE)


# What does not complete the step rolls back


def raising(error: BaseException) -> Work:
    async def work(run: WorkflowRun, database: Database) -> object:
        await paid(run, database)
        raise error

    return work


def returning(outcome: object) -> Work:
    async def work(run: WorkflowRun, database: Database) -> object:
        await paid(run, database)
        return outcome

    return work


async def swallows(run: WorkflowRun, database: Database) -> object:
    """The statement fails, and with it the transaction; the step goes on as if nothing were."""
    await paid(run, database)
    with suppress(asyncpg.PostgresError):
        await database.execute("SELECT 1 / 0")
    return StepOutcome.Continue()


async def commits(run: WorkflowRun, database: Database) -> object:
    await database.execute("ROLLBACK")
    return StepOutcome.Continue()


ENDS_NOTHING: dict[str, Work] = {
    "fails": returning(StepOutcome.Fail("no money", compensate=True)),
    "raises": raising(WorkflowError("no money")),
    "raises what nobody knows": raising(KeyError("money")),
    "returns nothing": returning(None),
    "goes where it may not": returning(StepOutcome.Continue(next="elsewhere")),
    "says too much": returning(StepOutcome.Continue({"text": "x" * 1_100_000})),
    "swallows a failed statement": swallows,
    "ends the transaction itself": commits,
}


@pytest.mark.parametrize("work", ENDS_NOTHING.values(), ids=ENDS_NOTHING.keys())
async def test_what_does_not_complete_the_step_has_not_acted(url: str, work: Work) -> None:
    """Never in doubt, and so nothing of it is undone, though it says compensate_on_failure."""
    pays = Payments(work)
    async with hosting(url, pays.served(idempotent=False)) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPENSATED
    assert await payments(url) == 0
    assert (pays.undone, len(pays.calls)) == ([], 1)


@pytest.mark.parametrize(
    "first",
    [
        returning(StepOutcome.Retry(after_ms=0, reason="busy")),
        raising(WorkflowError("busy", retryable=True)),
        raising(ConnectionError("busy")),
    ],
)
async def test_a_retry_pays_in_its_last_attempt_only(url: str, first: Work) -> None:
    """P8"""
    pays = Payments(first, paid)
    retries = {"backoff_ms": 1, "max_backoff_ms": 1}
    async with hosting(url, pays.served(retries=replace(support.step("x").retries, **retries))) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, run.context) == (COMPLETED, {"pay": 2})
    assert await ask(url, "SELECT array_agg(attempt) FROM payments") == [2]


async def test_a_savepoint_lets_a_step_go_on(url: str) -> None:
    async def work(run: WorkflowRun, database: Database) -> object:
        with suppress(asyncpg.PostgresError):
            async with database.transaction():
                await paid(run, database)
                await database.execute("SELECT 1 / 0")
        return await paid(run, database)

    async with hosting(url, Payments(work).served()) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPLETED
    assert await payments(url) == 1


async def test_the_block_may_be_entered_again_and_not_after_the_end(url: str) -> None:
    kept: list[WorkflowRun] = []

    async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
        kept.append(run)
        for _ in range(2):
            async with run.transaction() as database:
                await database.execute(PAY, run.idempotency_key, run.attempt)
        return StepOutcome.Continue()

    served = support.registry(support.plugin(run_step, support.workflow(support.step("pay", transactional=True))))
    async with hosting(url, served) as here:
        await here.ended(await here.start(key="one"))
        with pytest.raises(DefinitionError, match="the attempt is over"):
            async with kept[0].transaction():
                pass

    assert await payments(url) == 2
    assert await ask(url, "SELECT count(DISTINCT xact) FROM payments") == 1


async def test_an_error_that_leaves_the_block_fails_the_attempt_whatever_is_returned(url: str) -> None:
    async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
        with suppress(KeyError):
            async with run.transaction() as database:
                await paid(run, database)
                raise KeyError("money")
        return StepOutcome.Continue()

    served = support.registry(support.plugin(run_step, support.workflow(support.step("pay", transactional=True))))
    async with hosting(url, served) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPENSATED
    assert "an error left the transaction" in (run.failure or "")
    assert await payments(url) == 0


# Time-outs, acts and lost leases while it works


class Gated:
    """Pays, and waits for `open`."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.paid = asyncio.Event()

    async def __call__(self, run: WorkflowRun, database: Database) -> object:
        outcome = await paid(run, database)
        self.paid.set()
        await self.open.wait()
        return outcome


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_time_out_rolls_back(url: str, idempotent: bool) -> None:
    """It is definitely not done, so that the next attempt is made where an unknown end would be in doubt."""
    pays = Payments(Gated(), paid)
    retries = replace(support.step("x").retries, backoff_ms=1)
    async with hosting(url, pays.served(timeout_ms=300, idempotent=idempotent, retries=retries)) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, pays.undone) == (COMPLETED, [])
    assert await ask(url, "SELECT array_agg(attempt) FROM payments") == [2]


async def test_a_time_out_ends_a_statement_that_waits(url: str) -> None:
    async def work(run: WorkflowRun, database: Database) -> object:
        await paid(run, database)
        return await database.execute("SELECT pg_sleep(600)")

    pays = Payments(work)
    retries = replace(support.step("x").retries, max_attempts=1)
    async with hosting(url, pays.served(timeout_ms=300, retries=retries)) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPENSATED
    assert await payments(url) == 0


async def test_a_signal_is_accepted_while_it_works_and_it_works_once(url: str) -> None:
    """The run's row is not locked meanwhile; what the checkpoint missed is taken first, in the same transaction."""
    gated = Gated()
    pays = Payments(gated)
    async with hosting(url, pays.served()) as here:
        run_id = await here.start(key="one")
        await gated.paid.wait()
        async with within(10):
            await here.service.signal(run_id, SignalRequest(name="hint", payload=1, id="s-1"))
        gated.open.set()
        run = await here.ended(run_id)
        journal = await kinds(here, run_id)

    assert (run.status, len(pays.calls)) == (COMPLETED, 1)
    assert journal.index("signal_received") < journal.index("step_completed")
    assert await ask(url, IN_ONE)


async def test_an_act_that_is_posted_just_then_is_taken_first(url: str) -> None:
    """The append waits for the act's row lock, and does not hold after it: it must not keep the lock that it then has.

    Taking the act is a commit of its own, which would wait for this transaction, and this one for that.
    """
    gated = Gated()
    pays = Payments(gated)
    posting, waited_for = threading.Event(), threading.Event()

    def judge(_: Loaded) -> Act:
        posting.set()
        assert waited_for.wait(30)
        kind, data = write_act(Signalled(act=0, by="ann", at=1, name="hint", payload=1))
        return Act(kind=kind, by="ann", data=data)

    async def post(run_id: str) -> None:
        async with opened(url) as store:
            await store.post(run_id, judge, at=1)

    async with hosting(url, pays.served()) as here:
        run_id = await here.start(key="one")
        await gated.paid.wait()
        posted = asyncio.create_task(asyncio.to_thread(asyncio.run, post(run_id)))
        await asyncio.to_thread(posting.wait, 30)
        gated.open.set()
        async with within():
            while not await ask(url, "SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        waited_for.set()
        await posted
        run = await here.ended(run_id)
        journal = await kinds(here, run_id)

    assert (run.status, len(pays.calls)) == (COMPLETED, 1)
    assert journal.index("signal_received") < journal.index("step_completed")


async def test_a_cancel_while_it_works_undoes_it(url: str) -> None:
    """P18: a stop interrupts no attempt (semantics §5): its result counts, and so it is undone."""
    gated = Gated()
    pays = Payments(gated)
    async with hosting(url, pays.served("ship")) as here:
        run_id = await here.start(key="one")
        await gated.paid.wait()
        async with within(10):
            await here.service.cancel(run_id, CancelRequest(reason="ordered twice"))
        gated.open.set()
        run = await here.ended(run_id)

    assert (run.status, pays.undone) == (COMPENSATED, ["pay"])
    assert await ask(url, IN_ONE)


async def test_a_cancel_that_interrupts_rolls_back(url: str) -> None:
    pays = Payments(Gated())
    async with hosting(url, pays.served(idempotent=False)) as here:
        run_id = await here.start(key="one")
        await pays.until_called()
        await here.service.cancel(run_id, CancelRequest(reason="ordered twice", now=True))
        run = await here.ended(run_id)

    assert (run.status, pays.undone) == (CANCELLED, [])
    assert await payments(url) == 0


async def test_a_host_that_was_replaced_leaves_nothing(url: str) -> None:
    """P33: the fence that the checkpoint carries holds for the effect as well."""
    gated = Gated()
    pays = Payments(gated)
    async with hosting(url, pays.served()) as here:
        await here.start(key="one")
        await gated.paid.wait()
        await run_sql(url, "UPDATE runs SET fence = fence + 1")
        before = await ask(url, "SELECT max(seq) FROM journal")
        gated.open.set()
        await here.telemetry.heard("lease_lost")

    assert await payments(url) == 0
    assert await ask(url, "SELECT max(seq) FROM journal") == before


# The database lets go


def broken_in(when: str, times: int) -> str:
    """A payment ends its session: at once, or in the COMMIT. A sequence counts, as it outlives what is rolled back."""
    return f"""
        CREATE SEQUENCE breaks;
        CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('breaks') <= {times} THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
                RETURN NULL;
            END
        $$;
        CREATE CONSTRAINT TRIGGER break AFTER INSERT ON payments
            DEFERRABLE INITIALLY {when} FOR EACH ROW EXECUTE FUNCTION break();
    """


@pytest.mark.parametrize("when", ["IMMEDIATE", "DEFERRED"])
async def test_a_session_that_ends_before_the_commit_costs_no_attempt(url: str, when: str) -> None:
    """As after a crash: the same attempt again, with the same number; once it is there, it is there once."""
    await run_sql(url, broken_in(when, times=2))
    pays = Payments()
    retries = replace(support.step("x").retries, max_attempts=1)
    async with hosting(url, pays.served(idempotent=False, retries=retries)) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, pays.undone) == (COMPLETED, [])
    assert pays.calls == [("pay", 1)] * 3
    assert await ask(url, IN_ONE)


async def test_the_intent_of_a_later_attempt_is_taken_back_when_its_session_ends(url: str) -> None:
    await run_sql(url, broken_in("DEFERRED", times=1))
    pays = Payments(returning(StepOutcome.Retry(after_ms=0, reason="busy")), paid)
    async with hosting(url, pays.served()) as here:
        run_id = await here.start(key="one")
        run = await here.ended(run_id)
        journal = await kinds(here, run_id)

    assert (run.status, run.context) == (COMPLETED, {"pay": 2})
    assert pays.calls == [("pay", 1), ("pay", 2), ("pay", 2)]
    assert journal.count("attempt_cleared") == 1
    assert await payments(url) == 1


@pytest.mark.tier("ci")
@pytest.mark.parametrize("when", ["IMMEDIATE", "DEFERRED"])
async def test_a_step_that_ends_its_session_each_time_fails_some_time(url: str, when: str) -> None:
    await run_sql(url, broken_in(when, times=1000))
    pays = Payments()
    retries = replace(support.step("x").retries, max_attempts=1)
    async with hosting(url, pays.served(retries=retries)) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPENSATED
    assert await payments(url) == 0


async def test_what_a_constraint_refuses_in_the_commit_fails_the_step(url: str) -> None:
    await run_sql(url, "ALTER TABLE payments ADD UNIQUE (key) DEFERRABLE INITIALLY DEFERRED")

    async def work(run: WorkflowRun, database: Database) -> object:
        await paid(run, database)
        return await paid(run, database)

    pays = Payments(work)
    async with hosting(url, pays.served()) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPENSATED
    assert "unique constraint" in (run.failure or "")
    assert (await payments(url), len(pays.calls)) == (0, 1)


# Many at once


async def test_branches_act_each_in_a_transaction_of_its_own(url: str) -> None:
    steps = [
        support.step("split", next=("left", "right")),
        support.step("left", transactional=True, next="end"),
        support.step("right", transactional=True, next="end"),
    ]
    pays = Payments()
    served = support.registry(support.plugin(pays.run_step, support.workflow(*steps)))
    async with hosting(url, served) as here:
        run = await here.ended(await here.start(key="one"))

    assert run.status is COMPLETED
    assert await ask(url, "SELECT count(DISTINCT xact) FROM payments") == 2


async def test_a_branch_whose_session_ends_is_made_again_beside_the_other(url: str) -> None:
    await run_sql(url, broken_in("DEFERRED", times=1))
    steps = [
        support.step("split", next=("left", "right")),
        support.step("left", transactional=True, next="end"),
        support.step("right", transactional=True, next="end"),
    ]
    pays = Payments()
    served = support.registry(support.plugin(pays.run_step, support.workflow(*steps)))
    async with hosting(url, served) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, len(pays.calls)) == (COMPLETED, 3)
    assert await ask(url, "SELECT count(DISTINCT key) = count(*) FROM payments") is True
    assert await payments(url) == 2


async def test_long_steps_keep_no_other_run_from_its_commits(url: str) -> None:
    """More of them than there are places: the others wait for one, and what is no such step goes on."""
    gated = Gated()
    pays = Payments(gated)
    plain = support.plugin(pays.run_step, support.workflow("pack", "ship", id_="plain"), name="plain")
    served = support.registry(*pays.served().plugins, plain)
    async with hosting(url, served) as here:
        runs = [await here.start(key=f"{n}") for n in range(STEPS + 4)]
        await pays.until_called(STEPS)
        run = await here.ended(await here.start("plain", key="plain"))
        assert run.status is COMPLETED
        assert len(pays.calls) == STEPS
        gated.open.set()
        for run_id in runs:
            assert (await here.ended(run_id)).status is COMPLETED

    assert await payments(url) == STEPS + 4
