"""A PostgreSQL server for the tests: that of `BEXT_TEST_POSTGRES_URL`, else one of their own from the wheel."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugins.workflow_pg.tests import programs
from plugins.workflow_pg.tests.programs import give_to_nobody, run_as_nobody

VARIABLE = "BEXT_TEST_POSTGRES_URL"
_LISTENING = ("-h", "127.0.0.1", "-k", "", "-c", "max_connections=200")
_QUICK = ("-c", "fsync=off")
"""A crash of the server alone loses nothing without fsync either."""
PATIENCE_S = 30
_TRIES = 3


class Server:
    """A server in a folder of its own, on a port of this machine. It can be stopped, and started again.

    `bin`: where its programs are, if they are not the wheel's.
    """

    def __init__(self, folder: Path, *, durable: bool = False, bin: Path | None = None) -> None:
        self._folder = folder
        self._settings = _LISTENING if durable else (*_LISTENING, *_QUICK)
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = programs.of_wheel(folder) if bin is None else bin
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """`initdb`."""
        self._data.mkdir()
        give_to_nobody(self._data)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = run_as_nobody([self._programs / "initdb", "-D", self._data, *options], self._folder)
        if made.wait(PATIENCE_S) != 0:
            raise RuntimeError(f"initdb failed: {self.log}")

    def start(self) -> None:
        """Returns once the server answers."""
        for _ in range(_TRIES):
            server: list[Path | str] = [
                self._programs / "postgres",
                "-D",
                self._data,
                *self._settings,
                "-p",
                str(self.port),
            ]
            self._process = run_as_nobody(server, self._folder)
            if self._answers(self._process):
                return
            self.port = free_port()
        raise RuntimeError(f"the server did not start: {self.log}")

    def stop(self) -> None:
        """At once, as in a crash: what was acknowledged is there after the next start."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT
            self._process.wait(PATIENCE_S)
            self._process = None

    @property
    def cpu_s(self) -> float:
        """What the server has used so far, with all its processes."""
        if self._process is None:
            return 0.0
        return _cpu_s(self._process.pid)

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2_000:]

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            if "ready to accept connections" in self.log and reachable(self.port):
                return True
            time.sleep(0.02)
        return False


@contextmanager
def own_server(*, durable: bool = False, within: Path | None = None, bin: Path | None = None) -> Iterator[Server]:
    """`durable`: what it acknowledges survives a crash of the machine. `within`: the folder to work in."""
    folder = Path(tempfile.mkdtemp(prefix="bext-pg-", dir=within))
    folder.chmod(0o755)
    server = Server(folder, durable=durable, bin=bin)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def any_server() -> Iterator[str]:
    """The URL of a database in which the tests may make schemas."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    with own_server() as server:
        yield server.url


def _cpu_s(parent: int) -> float:
    """Seconds of a process, of its children that have ended, and of those that live."""
    own, ended = _ticks(parent)
    living = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _parent_of(folder) == parent:
            living += _ticks(int(folder.name))[0]
    return (own + ended + living) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> tuple[int, int]:
    fields = _stat(Path("/proc") / str(pid))
    return (int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])) if fields else (0, 0)


def _parent_of(folder: Path) -> int | None:
    fields = _stat(folder)
    return int(fields[1]) if fields else None


def _stat(folder: Path) -> list[str]:
    """What the kernel says of a process after its name; nothing once it is gone."""
    try:
        return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
