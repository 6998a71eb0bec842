"""The ledger in PostgreSQL: made once, whoever comes first; what a database that breaks off means; its balance."""

from __future__ import annotations

import asyncio
import json

import pytest

from bext_workflow import StepOutcome, WorkflowError
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg import __main__
from bext_workflow_pg.checkout import CheckoutPlugin
from bext_workflow_pg.errors import NotALedger, Transient, Unreachable
from bext_workflow_pg.postgres_ledger import PostgresLedger
from plugins.workflow_pg.tests.databases import at, run_sql
from plugins.workflow_pg.tests.ledgers import opened
from plugins.workflow_pg.tests.server import free_port
from plugins.workflow_pg.tests.snapshots import ORDER, forward, undo

ENDS_THE_SESSION = """
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END
    $$;
    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON checkout_entries
        DEFERRABLE INITIALLY {when} FOR EACH ROW EXECUTE FUNCTION fail();
"""
"""When something is posted: IMMEDIATE with it, or DEFERRED, in the COMMIT."""


async def test_many_can_open_a_new_ledger_at_once(url: str) -> None:
    """One makes the tables and all come up."""
    ledgers = await asyncio.gather(*(PostgresLedger.open(url) for _ in range(6)))
    try:
        assert {len((await ledger.books()).stock) for ledger in ledgers} == {4}
    finally:
        for ledger in ledgers:
            await ledger.close()


async def test_what_was_done_is_there_after_reopening(url: str) -> None:
    async with opened(url) as ledger:
        first = await ledger.reserve("key", ORDER)
    async with opened(url) as ledger:
        assert (await ledger.books()).entries == (first,)


async def test_a_session_that_ends_in_the_midst_is_transient(url: str) -> None:
    """Nothing was committed, and that is certain."""
    async with opened(url) as ledger:
        await run_sql(url, ENDS_THE_SESSION.format(when="IMMEDIATE"))
        with pytest.raises(Transient, match=r"^the ledger does not answer: "):
            await ledger.charge("key", ORDER)

        await run_sql(url, "DROP TRIGGER fail ON checkout_entries")
        assert (await ledger.charge("key", ORDER)).calls == 1


async def test_a_session_that_ends_in_its_commit_is_unreachable(url: str) -> None:
    """Whether the service has acted is for the host to judge."""
    async with opened(url) as ledger:
        await run_sql(url, ENDS_THE_SESSION.format(when="DEFERRED"))
        with pytest.raises(Unreachable, match=r"^the ledger broke off: "):
            await ledger.charge("key", ORDER)


async def test_a_plugin_over_a_database_that_is_gone(url: str, host: HostInfo) -> None:
    """A step is retried, as is an undo; both begin nothing."""
    plugin = CheckoutPlugin()
    plugin.configure({"dsn": url}, host)
    async with plugin.lifespan():
        await run_sql(url, "DROP TABLE checkout_entries")
        outcome = await plugin.run_step(forward("charge_card"), "charge_card")
        with pytest.raises(WorkflowError, match="does not answer") as caught:
            await plugin.compensate_step(undo("charge_card"), "charge_card")

    assert isinstance(outcome, StepOutcome.Retry)
    assert caught.value.retryable


async def test_a_database_that_cannot_be_reached(url: str) -> None:
    nowhere = at(url, port=free_port()).replace("//postgres@", "//postgres:hush@")
    with pytest.raises(Unreachable, match="nothing answers there") as caught:
        await PostgresLedger.open(nowhere)
    assert "hush" not in str(caught.value)


async def test_a_database_without_a_ledger_stays_so(url: str) -> None:
    with pytest.raises(NotALedger, match=r"there is no ledger$"):
        await PostgresLedger.open_for_reading(url)
    assert await asyncio.to_thread(__main__.main, [url]) == 2


async def test_its_balance_is_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(url) as ledger:
        entry = await ledger.reserve("1:reserve_stock", ORDER)

    assert await asyncio.to_thread(__main__.main, [url, "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["totals"] == {"reserved": 1, "charged": 0, "sent": 0, "undone": 0}
    assert [one["at"] for one in report["entries"]] == [entry.at]
    assert report["stock"][-1]["available"] == 999_998
