"""A shell in which the examples of the documentation run as they are written, without a network.

`pip` does nothing there, `uv run` runs what follows in this environment, and `uv pip install -e FOLDER` puts the
package into a folder on the path, with the metadata that an installer would write.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PIP = "#!/bin/sh\n"
_UV = """#!/bin/sh
case "$1" in
    run) shift; exec "$@" ;;
    pip) exec {python} {here} {site} "$4" ;;
    *) echo "uv $1 is not expected here" >&2; exit 99 ;;
esac
"""
_START_S = 30


class Said(NamedTuple):
    """How a block of commands ended."""

    code: int
    out: str
    err: str


class Shell:
    """One folder, in which blocks run one after another and share their variables."""

    def __init__(self, folder: Path, work: Path, **variables: str) -> None:
        """`folder` is where commands run, `work` where the shell's own things are; `variables` are exported."""
        self.folder = folder
        self._ready = work / "ready.json"
        self._variables = work / "variables"
        self._variables.write_text("ORDER=\n", encoding="utf-8")
        self._environment = _environment(work, self._ready) | variables

    def __call__(self, block: str) -> Said:
        """Runs the lines as a person would type them, up to the first that fails; the code is the last one's."""
        keep = f"trap 'declare -p ORDER >{self._variables}' EXIT"
        script = f"set -e\n. {self._variables}\n{keep}\n{block}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        return Said(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def serving(self, block: str, ready: str = "") -> Iterator[None]:
        """A block that runs until the host in it is stopped, or killed by somebody else.

        `ready`: the ready file that it names, if it names one.
        """
        tells = self.folder / ready if ready else self._ready
        tells.unlink(missing_ok=True)
        with subprocess.Popen(
            ["bash", "-c", block], cwd=self.folder, env=self._environment, stderr=subprocess.PIPE, text=True
        ) as terminal:
            pid = self._wait_for_host(terminal, tells)
            try:
                yield
            finally:
                if terminal.poll() is None:
                    os.kill(pid, signal.SIGTERM)
                terminal.communicate(timeout=_START_S)

    def _wait_for_host(self, terminal: subprocess.Popen[str], tells: Path) -> int:
        until = time.monotonic() + _START_S
        while terminal.poll() is None and time.monotonic() < until:
            if tells.exists():
                pid: int = json.loads(tells.read_text(encoding="utf-8"))["pid"]
                return pid
            time.sleep(0.01)
        terminal.kill()
        raise AssertionError(f"no host came up: {terminal.communicate()[1]}")


def _environment(work: Path, ready: Path) -> dict[str, str]:
    site, bin_ = work / "site", work / "bin"
    site.mkdir()
    bin_.mkdir()
    uv = _UV.format(python=sys.executable, here=Path(__file__).resolve(), site=site)
    for name, script in (("pip", _PIP), ("uv", uv)):
        (bin_ / name).write_text(script, encoding="utf-8")
        (bin_ / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BEXT_", "PYTHON", "COLUMNS"))}
    return {
        **kept,
        "PATH": os.pathsep.join([str(bin_), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(site),
        "TMPDIR": str(work),
        "BEXT_OUTPUT": "table",
        "BEXT_LISTEN": "127.0.0.1:0",
        "BEXT_READY_FILE": str(ready),
    }


def install(site: Path, folder: Path) -> None:
    """What an installer does for a pure Python project: its modules, and metadata with its entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = folder / "src" if (folder / "src").is_dir() else folder
    for module in source.iterdir():
        if module.is_dir() and (module / "__init__.py").exists():
            shutil.copytree(module, site / module.name)
        elif module.suffix == ".py":
            shutil.copy(module, site)
    name, version = project["name"], project["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    groups = project.get("entry-points", {})
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    (info / "entry_points.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]))
