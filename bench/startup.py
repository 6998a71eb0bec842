"""How soon the command line answers, and a host with 100,000 runs in its store: whole processes, from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from bench import raw
from bench.report import Figure, at_most, plain

RUNS = 100_000
_HOST = (sys.executable, "-m", "bext_workflow")
_CONFIG = '[host]\nstore = "sqlite:bext.db"\nlisten = "127.0.0.1:0"\n\n[[plugins]]\nname = "workflow-pg"\n'
_ORDER = {"order_id": "o-1", "sku": "widget", "quantity": 1, "payment_method": "pm_ok", "email": "a@b.c"}
_IMPORTS = "import anyio, fastapi, httpx, msgspec, orjson, pluggy, prometheus_client, pydantic, structlog, uvicorn"


def measure(folder: Path, rounds: int) -> Sequence[Figure]:
    """The times of `--help`, of the bare imports, and of `serve` until it answers and until it has driven a run."""
    (folder / "bext.config.toml").write_text(_CONFIG)
    raw.fill(folder / "bext.db", RUNS)
    helps = [_seconds([*_HOST, "--help"], folder) * 1e3 for _ in range(rounds)]
    imports = [_seconds([sys.executable, "-c", _IMPORTS], folder) for _ in range(rounds)]
    served = [_serve(folder) for _ in range(rounds)]
    return [
        at_most("bext-host --help", helps, "ms", 150),
        at_most("serve answers /livez, 10^5 runs in the store", [alive for alive, _ in served], "s", 2),
        at_most("serve has driven a run, 10^5 runs in the store", [driven for _, driven in served], "s", 3),
        plain("the bare imports of what serve needs", imports, "s"),
    ]


def _seconds(command: Sequence[str], folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - begun


def _serve(folder: Path) -> tuple[float, float]:
    """Seconds until `/livez` answers and until a first saga has completed."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    begun = time.perf_counter()
    host = subprocess.Popen([*_HOST, "serve", "--ready-file", str(ready)], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        while not ready.exists():
            time.sleep(0.005)
        with httpx.Client(base_url=json.loads(ready.read_text())["url"], timeout=30) as client:
            client.get("/livez").raise_for_status()
            alive = time.perf_counter() - begun
            started = client.post("/api/v1/runs", json={"workflow": "checkout", "context": _ORDER})
            run_id = started.raise_for_status().json()["run_id"]
            client.get(f"/api/v1/runs/{run_id}/result", params={"wait": "30s"}).raise_for_status()
            return alive, time.perf_counter() - begun
    finally:
        host.send_signal(signal.SIGTERM)
        host.wait(30)
