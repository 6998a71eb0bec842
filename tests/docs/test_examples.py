"""The examples of the documentation do what they say: they run as they are written."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from pathlib import Path

import msgspec
import pytest

import bext_workflow
from bext_workflow.model.view import RunView
from bext_workflow.stores.sqlite.store import SqliteStore
from plugins.workflow_pg.tests.databases import ask, at, fresh_database
from plugins.workflow_pg.tests.server import any_server, free_port
from tests.docs.pages import DOCS, PAGES, README, ROOT, Block, blocks, marked
from tests.docs.shell import Said, Shell

GUIDE, OPERATIONS = DOCS / "plugin-guide.md", DOCS / "operations.md"

_VARIES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\b(res|ch|rcpt)_[0-9a-f]{20}"), "ID"),
    (re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?"), "TIME"),
    (re.compile(r" by \w+"), " by SOMEBODY"),
    (re.compile(r"─+"), "─"),
)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder, work = tmp_path / "clone", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    (folder / "bext.config.toml").write_text((ROOT / "bext.config.toml").read_text(encoding="utf-8"), encoding="utf-8")
    return Shell(folder, work)


def run(shell: Shell, name: str, page: Path = README) -> Said:
    """Runs the block `run: name`; what it shows is what the page says, but for ids and times."""
    said = shell(marked(page, f"run: {name}"))
    shown = [block.text for block in blocks(page) if block.mark == f"shows: {name}"]
    for text in shown:
        assert stable(text) <= stable(said.out) | stable(said.err), said
    return said


def stable(text: str) -> set[str]:
    """The lines, without what is different each time."""
    for varying, word in _VARIES:
        text = varying.sub(word, text)
    return {" ".join(line.split()) for line in text.splitlines()}


# The plugin in 30 lines


def test_the_plugin_of_the_readme_is_found_checked_and_run(shell: Shell) -> None:
    """In a package outside the repository: found, checked, run, undone."""
    (shell.folder / "trips").mkdir()
    for name in ("trips.py", "pyproject.toml", "bext.config.toml"):
        (shell.folder / "trips" / name).write_text(marked(README, f"file: {name}"), encoding="utf-8")
    said = run(shell, "trips")
    assert said.code == 10
    assert "1 plugin, 1 workflow: no errors, no warnings" in said.out
    assert re.findall(r"^status +(\w+)", said.out, re.MULTILINE) == ["COMPLETED", "COMPENSATED"]
    assert re.search(r"undoing book_hotel with the key [0-9a-f-]{36}:book_hotel:compensate", said.err)


def test_the_plugin_of_the_readme_is_short() -> None:
    assert len(marked(README, "file: trips.py").splitlines()) <= 30
    tables = marked(README, "file: pyproject.toml") + marked(README, "file: bext.config.toml")
    assert len([line for line in tables.splitlines() if line]) <= 10


def test_the_json_of_the_readme_has_the_fields_of_a_run() -> None:
    shown = json.loads(marked(README, "json: run"))
    assert list(shown) == [field.encode_name for field in msgspec.structs.fields(RunView)]


# The two commands, and three orders


@pytest.mark.tier("ci")
def test_the_first_screen_of_the_readme(shell: Shell) -> None:
    """One order succeeds, one declines and rolls back, one survives a kill of the host."""
    serve = marked(README, "run: serve")
    be_patient_with_the_warehouse(shell.folder / "bext.config.toml")
    with shell.serving(serve):
        assert run(shell, "success").code == 0
        assert run(shell, "declined").code == 10
        assert run(shell, "killed").code == 0
    with shell.serving(serve):
        assert run(shell, "survived").code == 0
    assert shell("uv run bext-host runs list -o jsonl | wc -l").out.strip() == "3"
    assert kinds_of(shell.folder / "bext.db", key="order-3").count("recovered") == 1
    assert (
        "balances: 2 reserved, 2 charged, 2 sent, 1 undone"
        in shell("uv run python -m bext_workflow_pg ledger.db -o table").out
    )


def be_patient_with_the_warehouse(config: Path) -> None:
    """A longer wait for the next attempt, so that the kill meets it on the slowest machine too."""
    text = config.read_text(encoding="utf-8")
    patient = text.replace("backoff_ms = 500", "backoff_ms = 5000", 1)
    assert patient != text
    config.write_text(patient, encoding="utf-8")


def kinds_of(store: Path, *, key: str) -> list[str]:
    """The journal of the run with a start key."""
    connection = sqlite3.connect(store)
    try:
        rows = connection.execute("SELECT kind FROM journal JOIN runs USING (rid) WHERE key = ? ORDER BY id", (key,))
        return [kind for (kind,) in rows]
    finally:
        connection.close()


@pytest.mark.tier("ci")
def test_the_demo_with_a_crash(shell: Shell) -> None:
    said = shell("uv run bext-host demo --crash")
    assert said.code == 0, said
    assert "The host was killed and is back" in said.out
    assert "8 runs: 4 COMPLETED, 2 COMPENSATED, 2 FAILED" in said.out


# The guides


@pytest.mark.tier("ci")
def test_the_beginning_of_the_plugin_guide(shell: Shell) -> None:
    said = run(shell, "init", GUIDE)
    assert said.code == 10, said
    assert re.findall(r"^status +(\w+)", said.out, re.MULTILINE) == ["COMPLETED", "COMPENSATED"]


@pytest.mark.parametrize(
    "block",
    [block for block in blocks(GUIDE) if block.language == "python"],
    ids=lambda block: block.text.split("(")[0],
)
def test_the_python_of_the_plugin_guide_runs(block: Block) -> None:
    names = {name: getattr(bext_workflow, name) for name in bext_workflow.__all__}
    exec(compile(block.text, str(GUIDE), "exec"), names)


async def test_the_backup_of_the_operations_guide(shell: Shell) -> None:
    store = SqliteStore(shell.folder / "bext.db")
    await store.open(migrate=True)
    try:
        await store.save_definition("order", 1, "d1g3st", "p", b"{}")
        assert run(shell, "backup", OPERATIONS).code == 0
    finally:
        await store.close()
    copy = sqlite3.connect(shell.folder / "backup.db")
    try:
        assert copy.execute("SELECT workflow FROM definitions").fetchall() == [("order",)]
    finally:
        copy.close()


@pytest.mark.tier("ci")
async def test_two_hosts_of_the_operations_guide(tmp_path: Path) -> None:
    """P35: orders over one database; one host is killed, and the other goes on with its run."""
    folder, work = tmp_path / "place", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    with any_server() as server:
        async with fresh_database(server) as database:
            url = at(server, database=database)
            await asyncio.to_thread(_two_hosts, Shell(folder, work, DATABASE_URL=url), free_port(), free_port())
            assert await ask(url, "SELECT count(*) FROM journal WHERE kind = 'recovered'") == 1


def _two_hosts(shell: Shell, one: int, two: int) -> None:
    """The ports of the page may be somebody's."""
    (shell.folder / "bext.config.toml").write_text(marked(OPERATIONS, "file: bext.config.toml"), encoding="utf-8")
    first, second, takes_over = (
        marked(OPERATIONS, f"run: {name}").replace("7421", str(one)).replace("7422", str(two))
        for name in ("one", "two", "taken-over")
    )
    with shell.serving(second, "two.json"):
        with shell.serving(first, "one.json"):
            said = run(shell, "shared", OPERATIONS)
            assert said.code == 10, said
            assert re.findall(r"^status +(\w+)", said.out, re.MULTILINE) == ["COMPLETED", "COMPENSATED"]
            assert shell(takes_over).code == 0
        assert run(shell, "went-on", OPERATIONS).code == 0


@pytest.mark.tier("ci")
async def test_the_move_of_the_operations_guide(tmp_path: Path) -> None:
    """A run that waits goes on over there, and none is driven twice."""
    folder, work = tmp_path / "place", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    config = (ROOT / "bext.config.toml").read_text(encoding="utf-8")
    (folder / "bext.config.toml").write_text(config, encoding="utf-8")
    with any_server() as server:
        async with fresh_database(server) as database:
            url = at(server, database=database)
            await asyncio.to_thread(_move, Shell(folder, work, DATABASE_URL=url), config)
            assert await ask(url, "SELECT count(*) FROM runs WHERE status = 'COMPLETED'") == 2


def _move(shell: Shell, config: str) -> None:
    order = marked(README, "run: success").splitlines()[0]
    start = f'{order}\nbext-host runs start checkout --input "$ORDER"'
    assert shell(f"{start} --key order-1 --wait").code == 0
    assert shell(f"{start} --key order-2").code == 0
    said = run(shell, "copy", OPERATIONS)
    assert said.code == 0, said
    assert {"runs 2", "start_keys 2"} <= stable(said.out)
    assert shell(marked(OPERATIONS, "run: copy")).code == 5
    moved = f'[host]\nstore = {{ env = "DATABASE_URL" }}\n{config}'
    (shell.folder / "bext.config.toml").write_text(moved, encoding="utf-8")
    assert shell(f"{start} --key order-2 --wait").code == 0


def test_no_block_is_marked_for_nothing() -> None:
    """Each mark of a page is one that the tests of this module know; `test_client_page` knows those of its own page."""
    known = {"serve", "success", "declined", "killed", "survived", "trips", "init", "backup"}
    known |= {"one", "two", "shared", "taken-over", "went-on", "copy"}
    pages = [page for page in PAGES if page != DOCS / "client.md"]
    marks = {block.mark for page in pages for block in blocks(page) if block.mark}
    assert {mark.partition(": ")[2] for mark in marks if mark.startswith(("run: ", "shows: "))} == known
