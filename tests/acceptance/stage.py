"""A warm process that has imported everything and forks a child for each life: `python -m tests.acceptance.stage`.

It reads lives from stdin and writes how they ended to stdout, each as a line of JSON.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from typing import NoReturn

import anyio
import msgspec

from tests.acceptance.life import Life, Told, live

LONGEST_S = 45


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a life ended: by a signal, by an exception, or well, with something to tell."""

    signal: int | None = None
    error: str = ""
    told: Told | None = None


def _ended(life: Life) -> Ended:
    """Plays the life in a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _live_and_exit(life, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Ended(signal=os.WTERMSIG(status))
    return msgspec.json.decode(text, type=Ended)


def _live_and_exit(life: Life, writer: int) -> NoReturn:
    signal.alarm(LONGEST_S)
    try:
        ended = Ended(told=live(life))
    except BaseException:
        ended = Ended(error=traceback.format_exc())
    with os.fdopen(writer, "wb") as told:
        told.write(msgspec.json.encode(ended))
    # A thread of a plugin that hangs must not keep the child.
    os._exit(0)


def _main() -> None:
    anyio.run(anyio.sleep, 0)  # imports what an event loop needs
    gc.freeze()
    for line in sys.stdin.buffer:
        ended = _ended(msgspec.json.decode(line, type=Life))
        sys.stdout.buffer.write(msgspec.json.encode(ended) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
