"""`doctor`: what a host rests on, each thing by itself, and a bundle that gives nothing away."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bext_workflow.app.doctor import diagnose
from bext_workflow.checks import health
from bext_workflow.errors import StoreBusy
from bext_workflow.host.clock import SystemClock
from bext_workflow.model.json import dumps
from bext_workflow.ports.hosting import Schema, Survey
from bext_workflow.service.health import Checked, Diagnosis, Health
from bext_workflow.testing.contract.base import committed, creation, host
from tests.unit.sqlite_support import opened

GIB = 1024**3
CONFIG = """
[host]
store = "sqlite:bext.db"

[[plugins]]
name = "workflow-pg"

[plugins.config]
dsn = { env = "CANARY" }
"""
CANARY = "canary-4711"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANARY", f"postgresql://u:{CANARY}@127.0.0.1/none")
    return write(tmp_path / "bext.config.toml", CONFIG)


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def by_what(diagnosis: Diagnosis) -> dict[str, Checked]:
    return {checked.what: checked for checked in diagnosis.checked}


async def test_of_a_host_that_is_well(config: Path) -> None:
    async with opened(config.parent / "bext.db") as store:
        await store.join(host())

        checked = by_what(await diagnose(config, SystemClock()))

    assert list(checked) == ["versions", "config", "plugins", "schema", "store", "clock", "disk", "hosts", "incidents"]
    assert {one.health for what, one in checked.items() if what != "disk"} == {Health.OK}
    assert "SQLite" in checked["store"].said
    assert "host-a" in checked["hosts"].said


async def test_what_is_live_and_has_no_host_is_said(config: Path) -> None:
    async with opened(config.parent / "bext.db") as store:
        await committed(store, creation(owner=None))

        checked = by_what(await diagnose(config, SystemClock()))

    assert (checked["hosts"].health, checked["hosts"].mend) == (Health.WARNING, "`bext-host serve`")


async def test_bundle_holds_no_secret(config: Path) -> None:
    async with opened(config.parent / "bext.db"):
        diagnosis = await diagnose(config, SystemClock())

    text = dumps(msgspec.to_builtins(diagnosis)).decode()
    assert CANARY not in text
    assert "***" in text
    assert "bext-workflow==" in text


async def test_what_rests_on_something_broken_is_not_looked_at(config: Path) -> None:
    assert [one.what for one in (await diagnose(config, SystemClock())).checked][-1] == "schema"  # no tables yet

    write(config, CONFIG.replace("workflow-pg", "workflow-pq"))
    checked = by_what(await diagnose(config, SystemClock()))
    assert checked["plugins"].health is Health.ERROR
    assert "workflow-pq" in checked["plugins"].said

    write(config, "[host]\nstore = 1\n")
    (_, broken) = (await diagnose(config, SystemClock())).checked
    assert (broken.what, broken.health) == ("config", Health.ERROR)


async def test_store_that_cannot_be_used_is_the_last_thing(config: Path) -> None:
    async with opened(config.parent / "bext.db"):
        pass
    with (config.parent / "bext.db").open("r+b") as file:
        file.write(b"no database at all")

    diagnosis = await diagnose(config, SystemClock())

    assert diagnosis.checked[-1].health is Health.ERROR
    assert "not a SQLite database" in diagnosis.checked[-1].said


@pytest.mark.parametrize(
    ("checked", "wanted"),
    [
        (health.schema(Schema(2, 2)), Health.OK),
        (health.schema(Schema(0, 2)), Health.WARNING),
        (health.schema(Schema(1, 2)), Health.ERROR),
        (health.schema(Schema(3, 2)), Health.ERROR),
        (health.clock(None, 0, 0), Health.OK),
        (health.clock(5_000, 4_990, 5_010), Health.OK),
        (health.clock(5_000, 6_000, 6_010), Health.OK),
        (health.clock(5_000, 6_001, 6_010), Health.WARNING),
        (health.clock(7_011, 6_000, 6_010), Health.WARNING),
        (health.disk(50 * GIB, 100 * GIB, "/"), Health.OK),
        (health.disk(9 * GIB, 100 * GIB, "/"), Health.WARNING),
        (health.disk(GIB // 2, GIB, "/"), Health.WARNING),
        (health.disk(GIB // 20, GIB, "/"), Health.ERROR),
        (health.hosts([], 0), Health.OK),
        (health.hosts([], 1), Health.WARNING),
        (health.hosts(["host-a"], 1), Health.OK),
        (health.incidents(0), Health.OK),
        (health.incidents(1), Health.WARNING),
        (health.pooler(Survey(engine="PostgreSQL 15")), Health.OK),
        (health.pooler(Survey(engine="PostgreSQL 15", pooled=True)), Health.WARNING),
        (health.broken("store", StoreBusy("taken", mend="stop it")), Health.ERROR),
    ],
)
def test_how_a_thing_is(checked: Checked, wanted: Health) -> None:
    assert checked.health is wanted
    assert bool(checked.mend) is (wanted is not Health.OK)
