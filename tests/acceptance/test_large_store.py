"""A host over a store with 100,000 runs comes up as fast as over an empty one."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from uuid_utils import uuid7

from bext_workflow.app.parts import load
from bext_workflow.host.clock import SystemClock
from bext_workflow.model.event import RunCompleted, RunCreated, StepCompleted
from bext_workflow.model.journal import rows
from bext_workflow.model.json import detach
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Committed, Create, Index
from tests.acceptance.hosts import Place, until
from tests.acceptance.saga import ORDER

RUNS = 100_000
EACH_LIVE = 10
"""Of so many runs one is not over: it waits for a person."""
BATCH = 5_000
ANSWERS_WITHIN_S = 2.0
DRIVES_WITHIN_S = 3.0
SLACK = 4.0
"""The machine that runs the tests may be busy."""


def old_runs(digest: str) -> Iterator[Create]:
    """Runs that were driven long ago, as rows."""
    context = detach(ORDER, max_bytes=10_000, what="the context")
    reserved = StepCompleted(step="reserve_stock", visit=1, attempt=1, next="charge_card")
    charged = StepCompleted(step="charge_card", visit=1, attempt=1, next="send_receipt")
    sent = StepCompleted(step="send_receipt", visit=1, attempt=1, next="end")
    for n in range(RUNS):
        run_id = str(uuid7())
        created = RunCreated(
            run_id=run_id, workflow="checkout", version=1, digest=digest, context=context, by="ada", begun=True
        )
        live = n % EACH_LIVE == 0
        events = rows([created, reserved] if live else [created, reserved, charged, sent, RunCompleted()])
        status = WorkflowStatus.SUSPENDED if live else WorkflowStatus.COMPLETED
        index = Index(status=status, step=None, wake_at=None, started_at=n, ended_at=None if live else n)
        yield Create(run_id=run_id, workflow="checkout", version=1, digest=digest, at=n, events=events, index=index)


async def fill(config: Path) -> None:
    """Puts them into the store of that config, through its own door."""
    parts = load(config, degraded=True, clock=SystemClock())
    runs = list(old_runs(parts.registry.served["checkout", 1].definition.digest))
    await parts.store.open(migrate=True)
    for first in range(0, RUNS, BATCH):
        results = await parts.store.write(runs[first : first + BATCH])
        assert all(isinstance(result, Committed) for result in results)
    await parts.store.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.tier("ci")
@pytest.mark.timeout(120)
def test_serve_answers_and_drives_soon_with_100_000_runs_in_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    asyncio.run(fill(place.folder / "bext.config.toml"))
    waiting = place("runs", "start", "checkout", "--input", json.dumps(ORDER)).json["run_id"]
    port = free_port()

    began = time.monotonic()
    with place.process("serve", "--listen", f"127.0.0.1:{port}"):
        until(lambda: answers(f"http://127.0.0.1:{port}/livez"), "/livez")
        answered_s = time.monotonic() - began
        result = f"http://127.0.0.1:{port}/api/v1/runs/{waiting}/result?wait=20s"
        run = httpx.get(result, timeout=30).json()
        driven_s = time.monotonic() - began

    with capsys.disabled():
        print(f"\n{RUNS} runs in the store: /livez after {answered_s:.2f} s, a run driven after {driven_s:.2f} s")
    assert run["status"] == "COMPLETED"
    assert answered_s <= ANSWERS_WITHIN_S * SLACK
    assert driven_s <= DRIVES_WITHIN_S * SLACK
