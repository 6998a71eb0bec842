"""The scripts of docs/client.md run as they are written, against a host, with a token."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from bext_workflow.service.administration import TokenRequest
from tests.docs.pages import DOCS, blocks, marked
from tests.integration.test_http import hosted, until_refused

PAGE = DOCS / "client.md"
URL = "http://127.0.0.1:7420"

PURCHASE = """
[[plugins.workflows]]
id = "purchase"
steps = [
    { name = "ask", wait = { signal = "decision", approval = { title = "May we buy it?", by = ["ada"] } } },
]
"""


async def test_the_scripts_say_what_the_page_shows(tmp_path: Path) -> None:
    async with hosted(tmp_path, PURCHASE) as at:
        token = (await at.client.create_token(TokenRequest(name="ada", scopes=["admin"]))).token
        await until_refused(at.client)
        scripts = [block.mark for block in blocks(PAGE) if block.mark.startswith("run: ")]
        assert scripts == ["run: order", "run: list", "run: decide"]
        for mark in scripts:
            said = await run(marked(PAGE, mark).replace(URL, str(at.http.base_url).rstrip("/")), token)
            shown = marked(PAGE, mark.replace("run: ", "shows: ")).splitlines()
            assert set(shown) <= set(said.splitlines()), said


async def run(script: str, token: str) -> str:
    """What the script says in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        env={**os.environ, "BEXT_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
