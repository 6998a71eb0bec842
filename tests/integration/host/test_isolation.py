"""`isolation = "process"`: whatever a plugin does costs its own attempt at the most (P43, P44, P45, P46)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from bext_workflow.errors import BextError
from bext_workflow.host.isolation.loading import load_apart
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.plugin.registry import Isolation, PluginSpec, Registry, load_plugins
from tests.integration.host.support import CONTEXT_BYTES, Hosted, hosting
from tests.unit.plugin_support import Install, Installed, host_info, installer

CODE = """
import ctypes, os, sys, time
from contextlib import asynccontextmanager
from bext_workflow import StepDefinition, StepOutcome, WorkflowDefinition, WorkflowError, hookimpl, RetryPolicy

TWICE = RetryPolicy(max_attempts=2, backoff_ms=0)

def flow(id_, **fields):
    steps = (StepDefinition(name="pack"), StepDefinition(name="ship", retries=TWICE, **fields))
    return WorkflowDefinition(id=id_, steps=steps)

class Plugin:
    @hookimpl
    def name(self):
        return "shop"

    @hookimpl
    def configure(self, config, host):
        self.folder = config["folder"]
        if config.get("refuse"):
            raise ValueError("no such warehouse")

    @hookimpl
    @asynccontextmanager
    async def lifespan(self):
        self.note("began")
        yield
        self.note("ended")

    @hookimpl
    def definitions(self):
        return [
            flow("order"),
            flow("once", idempotent=False),
            flow("quick", timeout_ms=500),
            flow("alive", timeout_ms=400, heartbeat_ms=30_000),
        ]

    def note(self, text):
        with open(os.path.join(self.folder, "notes"), "a") as notes:
            notes.write(f"{os.getpid()} {text}\\n")

    @hookimpl
    async def run_step(self, run, step_name):
        self.note(f"{step_name} {run.attempt} {run.idempotency_key}")
        if step_name == "pack":
            return StepOutcome.Continue({"packed": True}, undo_data={"box": 7})
        if run.attempt == 2 and not run.context.get("always"):
            return StepOutcome.Continue({"shipped": os.getpid(), "completed": list(run.completed_steps)})
        return await getattr(self, run.context["do"])(run)

    @hookimpl
    def compensate_step(self, run, step_name):
        self.note(f"undo {step_name} {run.undo_data} {run.failure}")

    @hookimpl
    def on_workflow_complete(self, run):
        self.note(f"complete {run.status}")

    async def well(self, run):
        return StepOutcome.Continue({"shipped": os.getpid(), "completed": list(run.completed_steps)})

    async def talk(self, run):
        print("a word for the screen")
        sys.stdin.read()
        sys.stdout.close()
        return await self.well(run)

    async def leave(self, run):
        os._exit(3)

    async def segfault(self, run):
        ctypes.string_at(0)

    async def loop(self, run):
        while True:
            pass

    async def hold(self, run):
        ctypes.PyDLL(None).sleep(60)

    async def exit(self, run):
        sys.exit(4)

    async def fail(self, run):
        return StepOutcome.Fail("no carrier", compensate=True)

    async def error(self, run):
        raise WorkflowError("the carrier is on strike")

    async def nonsense(self, run):
        return {"shipped": True}

    async def nan(self, run):
        return StepOutcome.Continue({"a": [float("nan")]})

    async def huge(self, run):
        return StepOutcome.Continue({"a": "x" * 10**8})

    async def beat(self, run):
        for part in range(10):
            run.heartbeat({"part": part})
            time.sleep(0.06)
        return await self.well(run)

    async def quiet_beat(self, run):
        run.heartbeat({"part": 1})

    async def token(self, run):
        return StepOutcome.Continue({"token": run.wait_token, "other": run.wait_token_for("pack")})
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a plugin where the processes that this one starts find it, too."""
    installing = installer(tmp_path, monkeypatch)

    def install(code: str = CODE) -> Installed:
        installed = installing(code)
        monkeypatch.setenv("PYTHONPATH", str(installed.folder))
        return installed

    return install


class Shop:
    """The plugin, in processes or inline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def registry(self, *, isolation: Isolation = Isolation.PROCESS, processes: int = 1, **config: object) -> Registry:
        isolate = partial(load_apart, processes=processes, context_bytes=CONTEXT_BYTES)
        spec = PluginSpec(name="shop", isolation=isolation, config={"folder": str(self.folder), **config})
        return load_plugins([spec], host_info(self.folder), isolate=isolate)

    @asynccontextmanager
    async def hosted(self, *, processes: int = 1) -> AsyncIterator[Hosted]:
        async with hosting(self.registry(processes=processes)) as hosted:
            yield hosted

    def notes(self) -> list[str]:
        """What the plugin has noted, without the processes' numbers."""
        return [line.partition(" ")[2] for line in self._lines()]

    def processes(self) -> list[int]:
        """The processes that have taken calls, in order."""
        return [int(line.partition(" ")[0]) for line in self._lines() if line.endswith(" began")]

    def _lines(self) -> list[str]:
        return (self.folder / "notes").read_text().splitlines()


@pytest.fixture
def shop(install: Install, tmp_path: Path) -> Shop:
    install()
    return Shop(tmp_path)


async def test_a_run_goes_through_a_process_of_the_plugin(shop: Shop) -> None:
    """The host never imports it; hooks, undo data and the snapshot cross over; the plugin's lifespan is its own."""
    before = set(sys.modules)
    async with shop.hosted() as hosted:
        done = await hosted.settled(await hosted.start("order", do="well"))
        undone = await hosted.settled(await hosted.start("order", do="fail"))
        await hosted.host.idle()
    assert not [name for name in set(sys.modules) - before if name.startswith("plugin_of_test")]
    (process,) = shop.processes()
    assert done.status is WorkflowStatus.COMPLETED
    assert _context(done)["shipped"] == process != os.getpid()
    assert _context(done)["completed"] == ["pack"]
    assert undone.status is WorkflowStatus.COMPENSATED
    assert shop.notes() == [
        "began",
        f"pack 1 {done.run_id}:pack",
        f"ship 1 {done.run_id}:ship",
        "complete COMPLETED",
        f"pack 1 {undone.run_id}:pack",
        f"ship 1 {undone.run_id}:ship",
        "undo pack {'box': 7} no carrier",
        "complete COMPENSATED",
        "ended",
    ]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("do", ["leave", "segfault", "exit"])
async def test_a_process_that_dies_costs_one_attempt(shop: Shop, do: str) -> None:
    """P45: the attempt is retried by its policy in a new process, with the same key; the host is as before."""
    async with shop.hosted() as hosted:
        run = await hosted.settled(await hosted.start("order", do=do))
        assert run.status is (WorkflowStatus.COMPENSATED if do == "exit" else WorkflowStatus.COMPLETED)
        assert (await hosted.settled(await hosted.start("order", do="well"))).status is WorkflowStatus.COMPLETED
    assert len(shop.processes()) == (1 if do == "exit" else 2)


@pytest.mark.tier("ci")
@pytest.mark.parametrize("do", ["loop", "hold"])
async def test_a_process_that_hangs_is_killed_at_its_time_out(shop: Shop, do: str) -> None:
    """P44: a busy loop, and a call into C that holds the interpreter. Another run of the plugin goes on meanwhile."""
    async with shop.hosted(processes=2) as hosted:
        hung = await hosted.start("quick", do=do)
        assert (await hosted.settled(await hosted.start("order", do="well"))).status is WorkflowStatus.COMPLETED
        run = await hosted.settled(hung)
        assert run.status is WorkflowStatus.COMPLETED
        retries = [one for one in await hosted.journal(hung) if one.kind == "attempt_failed"]
        assert "took longer than timeout_ms = 500" in str(retries)
        killed = [pid for pid in shop.processes() if pid != _context(run)["shipped"]]
        assert killed
        assert not _alive(killed[0]) or not _alive(killed[-1])


@pytest.mark.tier("ci")
async def test_what_must_not_be_repeated_is_in_doubt(shop: Shop) -> None:
    """P4: nobody knows what the process has done before it died."""
    async with shop.hosted() as hosted:
        run_id = await hosted.start("once", do="leave")
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        incident = await hosted.incident(run_id)
    assert incident.kind == IncidentKind.IN_DOUBT
    assert "ended by itself: exit code 3" in incident.reason


@pytest.mark.tier("ci")
@pytest.mark.parametrize("do", ["error", "nonsense", "nan", "huge", "quiet_beat"])
async def test_the_verdict_is_the_same_as_inline(shop: Shop, do: str) -> None:
    """P43, P46: what the plugin raises and returns is read by the same rules, with the same words."""
    failures = []
    for isolation in Isolation:
        async with hosting(shop.registry(isolation=isolation)) as hosted:
            run = await hosted.settled(await hosted.start("order", do=do, always=True))
            failures.append((run.status, run.failure))
    assert failures[0] == failures[1]
    assert failures[0][0] is WorkflowStatus.COMPENSATED


@pytest.mark.tier("ci")
async def test_standard_input_and_output_are_not_the_line_to_the_host(shop: Shop) -> None:
    async with shop.hosted() as hosted:
        assert (await hosted.settled(await hosted.start("order", do="talk"))).status is WorkflowStatus.COMPLETED
        assert (await hosted.settled(await hosted.start("order", do="well"))).status is WorkflowStatus.COMPLETED
    assert len(shop.processes()) == 1


@pytest.mark.tier("ci")
async def test_heartbeats_put_the_time_out_off(shop: Shop) -> None:
    async with shop.hosted() as hosted:
        run = await hosted.settled(await hosted.start("alive", do="beat"))
    assert run.status is WorkflowStatus.COMPLETED
    assert shop.notes().count(f"ship 1 {run.run_id}:ship") == 1
    assert f"ship 2 {run.run_id}:ship" not in shop.notes()


@pytest.mark.tier("ci")
async def test_wait_tokens_are_the_host_s(shop: Shop) -> None:
    """They are asked for over the line, and are those that the plugin would have got inline."""
    async with shop.hosted() as hosted:
        run = await hosted.settled(await hosted.start("order", do="token"))
        mint: Callable[[str], str] = hosted.host._shop.mint
        assert _context(run)["token"] == mint(f"{run.run_id}:ship")
        assert _context(run)["other"] == mint(f"{run.run_id}:pack#2")


@pytest.mark.tier("ci")
def test_a_plugin_that_cannot_be_loaded_is_named(install: Install, tmp_path: Path) -> None:
    """P48: by one line with a mend, whatever happens in its process."""
    install()
    with pytest.raises(BextError, match=r"plugin 'shop' .*refuses its config: no such warehouse"):
        Shop(tmp_path).registry(refuse=True)
    install("import os\nos._exit(5)\n")
    with pytest.raises(BextError, match=r"its process ended with 5 before it said what it has"):
        Shop(tmp_path).registry()
    install("1 / 0\n")
    with pytest.raises(BextError, match=r"cannot be imported: ZeroDivisionError"):
        Shop(tmp_path).registry()


def _context(run: RunView) -> JsonObject:
    assert isinstance(run.context, dict)
    return run.context


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
