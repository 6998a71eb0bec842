"""Durability, seen from the system calls: what is acknowledged is on the disk (P2)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.acceptance.load import AT_ONCE, ONE_BY_ONE, Counted
from tests.acceptance.saga import SUCCESS, begin
from tests.acceptance.theatre import ROOT

COMMITS_OF_AN_ORDER = 5
CALL = re.compile(r"^\d+ (?:<\.\.\. )?(\w+)(?:\(\d+<[^>]*/([\w.-]+)>| resumed>)")


@pytest.mark.tier("ci")
def test_nothing_is_acknowledged_before_its_fdatasync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P2: a trace of the process, in which each acknowledgement comes after a sync of the log that was written last."""
    folder = begin(tmp_path, "load", SUCCESS).folder
    trace = tmp_path / "trace"
    watched = [f"--trace-path={folder / name}" for name in ("bext.db-wal", "acknowledged")]
    calls = "--trace=fdatasync,fsync,pwrite64,write"
    strace = ["strace", "--follow-forks", "--decode-fds=path", calls, *watched, f"--output={trace}"]

    command = [*strace, sys.executable, "-m", "tests.acceptance.load", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)

    counted = msgspec.json.decode(done.stdout, type=Counted)
    made = [_letter(line) for line in trace.read_text(encoding="utf-8").splitlines() if "resumed" not in line]
    told = "".join(made)
    syncs = told.count("s")
    with capsys.disabled():
        print(f"\n{counted.batches} batches of {counted.members} members acknowledged, {syncs} syncs of the log")
    assert counted.members >= COMMITS_OF_AN_ORDER * (AT_ONCE + ONE_BY_ONE)
    assert told.count("a") == counted.batches
    assert syncs >= counted.batches
    # Each acknowledgement: the log was written, then synced, and not written since.
    assert re.fullmatch(r"(?:[ws]*w+s+a)+[ws]*", told), told


def _letter(line: str) -> str:
    """`w`: the log is written, `s`: it is synced, `a`: a batch is acknowledged."""
    if "/acknowledged>" in line:
        return "a"
    return "s" if "sync(" in line else "w"
