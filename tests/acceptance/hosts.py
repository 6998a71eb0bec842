"""Real `bext-host` processes over a folder, and the ways to talk to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, NamedTuple

import httpx
import msgspec

from bext_workflow.model.json import Json, JsonObject
from tests.acceptance import gate
from tests.checkout import CONFIG

PATIENCE_S = 45
PAUSE_S = 0.005

GATES = """
[[plugins]]
name = "gate"

[[plugins]]
name = "thread"
"""


class Noted(msgspec.Struct, frozen=True):
    """A call, as the gate plugin notes it."""

    run: str
    key: str
    attempt: int


class Command(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        return json.loads(self.out)


class Place:
    """A folder with a config and, beside it, a folder of installed packages that only its processes see."""

    def __init__(self, folder: Path, config: str = CONFIG + GATES) -> None:
        self.folder = folder / "place"
        self.site = folder / "site"
        self.folder.mkdir()
        self.site.mkdir()
        self._hosts = count(1)
        self.ahead_ms = 0
        """By how much the wall clock of the processes that begin from now on is ahead."""
        (self.folder / "bext.config.toml").write_text(config, encoding="utf-8")
        shutil.copy(gate.__file__, self.site)
        install(self.site, "acceptance-gate", gate="gate:coroutine", thread="gate:thread")

    def __call__(self, *words: str) -> Command:
        """Runs a command to its end."""
        with self.process(*words) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
            return Command(process.returncode, out, err)

    @contextmanager
    def process(self, *words: str, err: IO[str] | int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        """A command that runs, until the block ends."""
        paths = [str(self.site), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BEXT_")}
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        command = [sys.executable, "-m", "bext_workflow.testing.ahead", str(self.ahead_ms), *words]
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=err
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def served(self, *options: str) -> Iterator[Served]:
        """A host that takes work. It is killed at the end of the block, if it has not ended by then."""
        name = f"host-{next(self._hosts)}"
        ready, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        words = ("serve", "--listen", "127.0.0.1:0", "--ready-file", str(ready), *options)
        # A pipe that nobody empties would stop a host that has much to say.
        with log.open("w", encoding="utf-8") as err, self.process(*words, err=err) as process:
            until(lambda: ready.exists() or process.poll() is not None, "the host to take work")
            if process.poll() is not None:
                raise AssertionError(f"serve ended with {process.returncode}: {log.read_text(encoding='utf-8')}")
            url = str(json.loads(ready.read_text(encoding="utf-8"))["url"])
            with httpx.Client(base_url=f"{url}/api/v1", timeout=PATIENCE_S) as client:
                yield Served(process, client, url, log)

    def calls(self) -> list[Noted]:
        noted = self.folder / "calls.jsonl"
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
        return [msgspec.json.decode(line, type=Noted) for line in lines]

    def wait_for_calls(self, count: int) -> None:
        until(lambda: len(self.calls()) >= count, f"{count} calls of the plugin")

    def open_the_gate(self) -> None:
        (self.folder / "open").touch()


class Served:
    """A host that is being served, over HTTP."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self._client = client
        self._log = log

    def start(self, workflow: str, **context: Json) -> str:
        """The id of a new run."""
        started = self._client.post("/runs", json={"workflow": workflow, "context": context})
        assert started.status_code == 201, started.text
        return str(started.json()["run_id"])

    def result(self, run_id: str) -> JsonObject:
        """The run, once it has ended or stands still."""
        return self.get(f"/runs/{run_id}/result?wait={PATIENCE_S}s")

    def get(self, path: str) -> JsonObject:
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        found: JsonObject = answer.json()
        return found

    def post(self, path: str, **body: Json) -> int:
        """The status code."""
        return self._client.post(path, json=body).status_code

    def probe(self, name: str) -> int:
        return self._client.get(self.url + name).status_code

    def metric(self, name: str) -> float:
        """What a metric without labels stands at."""
        told = self._client.get(f"{self.url}/metrics").text
        return next((float(line.split()[1]) for line in told.splitlines() if line.startswith(f"{name} ")), 0.0)

    def heard(self, words: str) -> None:
        """Waits until the host has written these words to stderr."""
        until(lambda: words in self._log.read_text(encoding="utf-8"), f"the host to say {words!r}")

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(timeout=PATIENCE_S)


def install(site: Path, distribution: str, **entry_points: str) -> None:
    """What pip leaves behind of a package: the metadata by which its plugins are found."""
    metadata = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[bext_workflow]", *lines, ""]), encoding="utf-8")


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that another process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(PAUSE_S)
