"""What the ledger adds up to, and the command that shows it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bext_workflow_pg import __main__
from bext_workflow_pg.ledger import Ledger
from plugins.workflow_pg.tests.ledgers import opened
from plugins.workflow_pg.tests.snapshots import ORDER


async def main(arguments: list[str]) -> int:
    """The command, as a thread of its own runs it: it has a loop of its own."""
    return await asyncio.to_thread(__main__.main, arguments)


@pytest.fixture
async def ledger(location: str) -> AsyncIterator[Ledger]:
    """One order that is done and one that was undone."""
    async with opened(location) as ledger:
        await ledger.reserve("1:reserve_stock", ORDER)
        await ledger.charge("1:charge_card", ORDER)
        await ledger.send("1:send_receipt", ORDER)
        undone = msgspec.structs.replace(ORDER, order_id="o-2", email="bounce@example.com")
        await ledger.reserve("2:reserve_stock", undone)
        await ledger.reserve("2:reserve_stock", undone)
        await ledger.charge("2:charge_card", undone)
        await ledger.refund("2:charge_card:compensate", of="2:charge_card")
        await ledger.release("2:reserve_stock:compensate", of="2:reserve_stock")
        yield ledger


@pytest.mark.usefixtures("ledger")
async def test_table_shows_each_key_and_the_balance(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await main([location, "-o", "table"]) == 0

    assert capsys.readouterr().out == (
        "KEY                         KIND     WHAT                STATUS    CALLS\n"
        "1:reserve_stock             reserve  2 × widget          reserved  1\n"
        "1:charge_card               charge   39.98 by pm_ok      charged   1\n"
        "1:send_receipt              send     to ada@example.com  sent      1\n"
        "2:reserve_stock             reserve  2 × widget          undone    2\n"
        "2:charge_card               charge   39.98 by pm_ok      undone    1\n"
        "2:charge_card:compensate    refund   -39.98 by pm_ok     refunded  1\n"
        "2:reserve_stock:compensate  release  -2 × widget         released  1\n"
        "\n"
        "balances: 1 reserved, 1 charged, 1 sent, 2 undone\n"
    )


@pytest.mark.parametrize("options", [["-o", "json"], []], ids=["asked for", "no terminal"])
async def test_json_has_everything(
    ledger: Ledger, location: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await main([location, *options]) == 0

    report = json.loads(capsys.readouterr().out)
    assert (report["balanced"], report["faults"]) == (True, [])
    assert report["totals"] == {"reserved": 1, "charged": 1, "sent": 1, "undone": 2}
    first = (await ledger.books()).entries[0]
    assert report["entries"][0] == {
        "n": 1,
        "key": "1:reserve_stock",
        "kind": "reserve",
        "id": first.id,
        "order_id": "o-1",
        "item": "widget",
        "amount": 2,
        "undoes": None,
        "calls": 1,
        "at": first.at,
        "status": "reserved",
    }
    assert report["stock"][-1] == {
        "sku": "widget",
        "price_cents": 1999,
        "delivered": 1_000_000,
        "available": 999_998,
    }


async def test_an_empty_ledger_balances(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(location):
        pass

    assert await main([location, "-o", "table"]) == 0
    assert capsys.readouterr().out.endswith("\nbalances: 0 reserved, 0 charged, 0 sent, 0 undone\n")


async def test_an_order_that_is_half_done_does_not_balance(
    ledger: Ledger, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await ledger.reserve("3:reserve_stock", msgspec.structs.replace(ORDER, order_id="o-3"))

    assert await main([location, "-o", "table"]) == 1
    assert capsys.readouterr().out.endswith(
        "\ndoes not balance: 2 reserved, 1 charged, 1 sent, 2 undone\n  order o-3: 1 reserved, 0 charged, 0 sent\n"
    )


async def test_an_order_that_was_charged_twice_does_not_balance(ledger: Ledger) -> None:
    """Twice under two keys: what a host would do that makes a new key for a repeated attempt."""
    await ledger.charge("1:charge_card again", ORDER)

    assert (await ledger.books()).faults() == ("order o-1: 1 reserved, 2 charged, 1 sent",)


async def test_the_same_order_in_two_runs_balances(ledger: Ledger) -> None:
    await ledger.reserve("3:reserve_stock", ORDER)
    await ledger.charge("3:charge_card", ORDER)
    await ledger.send("3:send_receipt", ORDER)

    assert (await ledger.books()).faults() == ()


async def test_pieces_that_are_missing_do_not_balance(ledger: Ledger, location: str) -> None:
    with closing(sqlite3.connect(location, isolation_level=None)) as thief:
        thief.execute("UPDATE checkout_stock SET available = available - 1 WHERE sku = 'widget'")

    assert (await ledger.books()).faults() == ("widget: 999997 available, but by the entries 999998",)


async def test_an_undo_that_found_nothing_is_said_and_balances(
    ledger: Ledger, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await ledger.refund("3:charge_card:compensate", of="3:charge_card")

    assert await main([location, "-o", "table"]) == 0
    line = capsys.readouterr().out.splitlines()[-3]
    assert line.split(maxsplit=3) == ["3:charge_card:compensate", "refund", "-", "nothing to undo  1"]


async def test_control_characters_do_not_reach_the_terminal(
    ledger: Ledger, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await ledger.reserve("3:reserve_stock\x1b[2J", msgspec.structs.replace(ORDER, order_id="\x1b]0;x\x07"))

    await main([location, "-o", "table"])

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "3:reserve_stock\\x1b[2J" in out
    assert "order \\x1b]0;x\\x07: 1 reserved" in out


def test_a_missing_file_is_one_line(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main([location]) == 2

    assert capsys.readouterr() == ("", f"error: {location}: no such file\n")
    assert not Path(location).exists()


def test_another_file_is_one_line(location: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(location).touch()

    assert __main__.main([location]) == 2
    assert capsys.readouterr() == ("", f"error: {location}: a database, but not a ledger\n")


async def test_runs_as_a_module_beside_a_host_that_is_writing(ledger: Ledger, location: str) -> None:
    await ledger.charge("4:charge_card", msgspec.structs.replace(ORDER, order_id="o-4"))

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "bext_workflow_pg", location, "-o", "json"],
        capture_output=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (1, b"")
    assert len(json.loads(done.stdout)["entries"]) == 8
