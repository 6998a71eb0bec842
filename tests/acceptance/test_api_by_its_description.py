"""The served API is asked all that its description allows, and much that it does not: no 5xx, nothing undocumented."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from tests.checkout import CONFIG

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"

pytestmark = pytest.mark.tier("ci")


async def said(*words: str, cwd: Path, **variables: str) -> str:
    """What a program writes. Raises with all of it unless it exits 0."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{out.decode()}\n{err.decode()}"
    return out.decode()


@pytest.mark.timeout(600)
async def test_no_request_meets_a_fault_or_an_answer_that_is_not_described(tmp_path: Path) -> None:
    (tmp_path / "bext.config.toml").write_text(CONFIG, encoding="utf-8")
    bext = (sys.executable, "-m", "bext_workflow", "-o", "json")
    # With a token, so that one that is made by chance does not shut everybody out.
    token = json.loads(await said(*bext, "tokens", "create", "fuzz", "--scope", "admin", cwd=tmp_path))["token"]
    order = '{"order_id": "o-1", "sku": "widget", "quantity": 2, "payment_method": "pm_ok", "email": "ada@example.com"}'
    await said(*bext, "runs", "start", "checkout", "--input", order, cwd=tmp_path)
    ready = tmp_path / "ready.json"
    host = await asyncio.create_subprocess_exec(
        *(*bext, "serve", "--listen", "127.0.0.1:0", "--ready-file", str(ready)), cwd=tmp_path
    )
    try:
        with anyio.fail_after(60):
            while True:
                if ready.exists():
                    break
                await anyio.sleep(0.05)
        url = json.loads(ready.read_text(encoding="utf-8"))["url"]
        await said(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", CHECKS),
            *("-H", f"Authorization: Bearer {token}", "--phases", "examples,coverage,fuzzing", "--max-examples", "5"),
            *("--exclude-path-regex", "stream$", "--seed", "1", "--no-color"),
            cwd=tmp_path,
        )
        host.send_signal(signal.SIGTERM)
        assert await host.wait() == 0
    finally:
        if host.returncode is None:
            host.kill()
            await host.wait()
