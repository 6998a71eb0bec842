"""The plugin process's end of the line to its host."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import BinaryIO

from bext_workflow.host.isolation import wire

_PR_SET_PDEATHSIG = 1


class Channel:
    """What the process was started with as standard input and output, taken away from the plugin's code.

    `send` may be called from any thread.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._lock = threading.Lock()

    @classmethod
    def taken(cls) -> Channel:
        """From here on a `print` goes to standard error, and whoever reads standard input finds it empty."""
        incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(incoming, outgoing)

    def send(self, message: wire.FromPlugin) -> None:
        text = wire.line(message)
        with self._lock:
            self._outgoing.write(text)
            self._outgoing.flush()

    def receive(self) -> wire.FromHost | None:
        """The next message; None once the host has closed its end, or is gone."""
        text = self._incoming.readline()
        return wire.from_host(text) if text else None


def end_with_parent(parent: int) -> None:
    """The kernel kills this process when its host dies, however busy it is. Elsewhere than on Linux, its end of the
    line tells, as soon as the interpreter is free to look.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
