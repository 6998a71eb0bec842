"""Transactional steps when a connection is cut around the COMMIT, and when the host itself is killed."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from bext_workflow import WorkflowRun
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.transaction import Database
from bext_workflow.ports.telemetry import RUN_CLAIMED
from plugins.workflow_pg.tests import purse
from plugins.workflow_pg.tests.databases import ask, at, fresh_database
from plugins.workflow_pg.tests.fleet import Fleet, acknowledged
from plugins.workflow_pg.tests.hosted import hosting
from plugins.workflow_pg.tests.payments import Payments, kinds, made, paid, payments
from plugins.workflow_pg.tests.proxy import Cut, Loss, proxied
from tests.integration.host import support

pytestmark = [pytest.mark.tier("ci"), pytest.mark.timeout(200)]


@pytest.mark.parametrize(
    ("name", "loss", "calls"),
    [
        ("savepoint", Loss.BEFORE, 2),
        ("advance", Loss.BEFORE, 2),
        ("advance", Loss.AFTER, 2),
        ("COMMIT", Loss.BEFORE, 2),
        ("COMMIT", Loss.AFTER, 1),
    ],
)
async def test_a_connection_is_cut_around_the_checkpoint(server: str, name: str, loss: Loss, calls: int) -> None:
    """P6: a COMMIT whose answer is lost is settled by reading; what was not committed is done anew, once."""
    async with fresh_database(server) as database, proxied(urlsplit(server).port or 5432) as proxy:
        straight = at(server, database=database)
        await made(straight)

        async def pays_and_arms(run: WorkflowRun, connection: Database) -> object:
            outcome = await paid(run, connection)
            proxy.count(Cut(name, 1, loss, behind="settings"))
            return outcome

        pays = Payments(pays_and_arms, paid)
        retries = replace(support.step("x").retries, max_attempts=1)
        through = at(server, port=proxy.port, database=database)
        async with hosting(through, pays.served(retries=retries, idempotent=False)) as here:
            run = await here.ended(await here.start(key="one"))
            await here.host.idle()  # what the end of the run does not wait for, such as one more attempt
            journal = await kinds(here, run.run_id)

        assert proxy.has_cut
        assert journal == ["run_created", "step_completed", "run_completed"]
        assert here.telemetry.all(RUN_CLAIMED) == [], "the host has known all along how the run stands"
        assert (run.status, len(pays.calls)) == (WorkflowStatus.COMPLETED, calls)
        assert await payments(straight) == 1
        assert await ask(straight, "SELECT (SELECT xact FROM payments) = (SELECT xact FROM journal WHERE seq = 2)")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_host_is_killed_before_and_after_the_commit(url: str, tmp_path: Path, when: str) -> None:
    """P1, P3: the other one goes on; each run has paid once, without a key, and though it is not idempotent."""
    fleet = Fleet(tmp_path, url, plugin=purse, lease_ms=3_000, poll_ms=500)
    context: JsonObject = {"gate": "pay" if when == "before" else "ship"}
    wanted = {f"order-{number}": context for number in range(10)}
    with fleet.served("--migrate") as victim:
        begun = await acknowledged([victim.url], wanted, workflow="purchase")
        await fleet.told("SELECT WHERE (SELECT count(*) FROM purse_calls) >= $1", len(wanted) * (1 + (when == "after")))
        victim.process.send_signal(signal.SIGKILL)
        victim.process.wait()
        assert await ask(url, "SELECT count(*) FROM purse_payments") == (0 if when == "before" else len(wanted))
        (fleet.folder / purse.GATE).touch()
        with fleet.served():
            await fleet.ended(len(wanted))

    rows = await fleet.ask("SELECT run_id, count(*) AS payments FROM purse_payments GROUP BY run_id")
    assert {row["run_id"]: row["payments"] for row in rows} == dict.fromkeys(begun, 1)
    assert {found.status for found in (await fleet.found()).values()} == {WorkflowStatus.COMPLETED}
    calls = await ask(url, "SELECT count(*) FROM purse_calls WHERE step = 'pay'")
    assert calls == len(wanted) * (2 if when == "before" else 1)
