"""The plugin as a host meets it: entry point, hooks, config, life."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pluggy
import pytest

import bext_workflow_pg
from bext_workflow import OnExhausted, RetryPolicy
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo, WorkflowPlugin
from bext_workflow.plugin.markers import PROJECT
from bext_workflow_pg.checkout import CHECKOUT, CheckoutPlugin
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.sqlite_ledger import SqliteLedger
from plugins.workflow_pg.tests.snapshots import forward


def test_entry_point_leads_to_the_plugin() -> None:
    (entry_point,) = entry_points(group=PROJECT, name="workflow-pg")

    assert entry_point.load() is bext_workflow_pg.plugin
    assert entry_point.dist is not None
    assert entry_point.dist.name == "bext-workflow-pg"


def test_hooks_are_those_of_the_trait() -> None:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(WorkflowPlugin)
    plugin = CheckoutPlugin()
    manager.register(plugin)
    manager.check_pending()

    implemented = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    assert implemented == {
        "name",
        "configure",
        "lifespan",
        "open_store",
        "definitions",
        "run_step",
        "compensate_step",
        "rehearse",
    }
    assert manager.hook.name() == "workflow-pg"


def test_definition_is_that_of_the_text() -> None:
    assert (CHECKOUT.id, CHECKOUT.version) == ("checkout", 1)
    assert [(step.name, step.retries, step.idempotent, step.compensate_on_failure) for step in CHECKOUT.steps] == [
        ("reserve_stock", policy(3, 500, 2.0, 5000), True, True),
        ("charge_card", policy(1, 0, 1.0, 0), False, True),
        ("send_receipt", policy(5, 200, 2.0, 10000), True, False),
    ]
    assert CheckoutPlugin().definitions() == [CHECKOUT]


def policy(max_attempts: int, backoff_ms: int, backoff_multiplier: float, max_backoff_ms: int) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=max_attempts,
        backoff_ms=backoff_ms,
        backoff_multiplier=backoff_multiplier,
        max_backoff_ms=max_backoff_ms,
        jitter=0.0,
        on_exhausted=OnExhausted.COMPENSATE,
    )


@pytest.mark.parametrize(
    ("ledger", "name"), [(None, "ledger.db"), ("other.db", "other.db"), ("../other.db", "../other.db")]
)
async def test_a_ledger_is_kept_beside_the_store(tmp_path: Path, ledger: str | None, name: str) -> None:
    """A relative path is relative to that folder; `configure` opens nothing."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    location = data_dir / name
    plugin = CheckoutPlugin()
    plugin.configure({} if ledger is None else {"ledger": ledger}, HostInfo(data_dir=data_dir, store="sqlite:bext.db"))

    assert not location.is_file()
    async with plugin.lifespan():
        assert location.is_file()


async def test_a_ledger_can_be_anywhere(tmp_path: Path, host: HostInfo) -> None:
    (tmp_path / "elsewhere").mkdir()
    location = tmp_path / "elsewhere" / "ledger.db"
    plugin = CheckoutPlugin()
    plugin.configure({"ledger": str(location)}, host)

    async with plugin.lifespan():
        assert location.is_file()


async def test_a_ledger_in_memory_leaves_no_file(plugin: CheckoutPlugin, tmp_path: Path) -> None:
    await plugin.run_step(forward("reserve_stock"), "reserve_stock")

    assert file_names(tmp_path) == []


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"leger": "x.db"}, "unknown key 'leger': the nearest known one is 'ledger'"),
        ({"dns": "x"}, "unknown key 'dns': the nearest known one is 'dsn'"),
        ({"dsn": "mysql://app:hush@db/x"}, "dsn must be the URL of a database, postgresql://USER@HOST:PORT/DATABASE"),
        ({"dsn": 7}, "dsn must be the URL of a database, postgresql://USER@HOST:PORT/DATABASE"),
        (
            {"dsn": "postgresql://db/x", "ledger": "x.db"},
            "ledger and dsn are both given: the ledger is kept in one place",
        ),
        ({"ledger": 7}, 'ledger is 7: it must be a path or ":memory:"'),
        ({"ledger": ""}, "ledger is '': it must be a path or \":memory:\""),
    ],
)
def test_a_config_that_is_refused(config: dict[str, Json], complaint: str, host: HostInfo) -> None:
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        CheckoutPlugin().configure(config, host)


async def test_the_ledger_is_there_within_the_lifespan_only(host: HostInfo) -> None:
    plugin = CheckoutPlugin()
    plugin.configure({}, host)

    with pytest.raises(RuntimeError, match="inside lifespan"):
        await plugin.run_step(forward("reserve_stock"), "reserve_stock")


async def test_configure_comes_first() -> None:
    with pytest.raises(RuntimeError, match=r"^configure\(\) comes before lifespan\(\)$"):
        async with CheckoutPlugin().lifespan():
            pass


async def test_the_ledger_is_closed_when_the_host_stops(host: HostInfo) -> None:
    """The last one to leave takes the -wal and -shm files away."""
    plugin = CheckoutPlugin()
    plugin.configure({}, host)
    async with plugin.lifespan():
        await plugin.run_step(forward("reserve_stock"), "reserve_stock")
        assert "ledger.db-wal" in file_names(host.data_dir)

    assert file_names(host.data_dir) == ["ledger.db"]


async def test_two_plugins_have_two_ledgers(plugin: CheckoutPlugin, host: HostInfo) -> None:
    other = CheckoutPlugin()
    other.configure({"ledger": ":memory:"}, host)
    async with other.lifespan():
        await other.run_step(forward("reserve_stock"), "reserve_stock")

        assert len((await other.ledger.books()).entries) == 1
        assert (await plugin.ledger.books()).entries == ()


async def test_another_ledger_can_be_handed_in(host: HostInfo) -> None:
    opened: list[str] = []

    async def open_ledger(location: str) -> Ledger:
        opened.append(location)
        return SqliteLedger.open(":memory:")

    plugin = CheckoutPlugin(open_ledger)
    plugin.configure({}, host)
    async with plugin.lifespan():
        assert opened == [str(host.data_dir / "ledger.db")]


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
