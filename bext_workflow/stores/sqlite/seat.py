"""The driver's seat: only the process that holds it drives the runs of a store (semantics §11).

It is an OS lock on a file beside the database, so the kernel frees it when its process dies, however that happens.
(POSIX only: `fcntl`.) A database in memory belongs to its process alone: its seat is always free.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path
from typing import Protocol

import msgspec

from bext_workflow.errors import StoreBusy
from bext_workflow.ports.store import HostRow

_RETRIES = 25
_PAUSE_S = 0.01


class Holder(msgspec.Struct, frozen=True):
    """Who sits there, as written into the lock's file."""

    host_id: str
    pid: int
    hostname: str


class Seat(Protocol):
    """One place for one host."""

    def take(self, host: HostRow) -> None:
        """Raises `StoreBusy`, naming the holder; the same host may take it again."""

    def leave(self, host_id: str) -> None:
        """Frees it, if it is `host_id`'s."""

    def holder(self) -> str | None:
        """The id of the host that sits there, in whatever process."""

    def mine(self, host_id: str) -> bool:
        """Whether `host_id` sits there by this object."""

    def drop(self) -> None:
        """Lets go of what this object holds, as the death of its process would."""


class MemorySeat:
    """The last one to take it has it."""

    def __init__(self) -> None:
        self._host_id: str | None = None

    def take(self, host: HostRow) -> None:
        self._host_id = host.host_id

    def leave(self, host_id: str) -> None:
        if self._host_id == host_id:
            self._host_id = None

    def holder(self) -> str | None:
        return self._host_id

    def mine(self, host_id: str) -> bool:
        return self._host_id == host_id

    def drop(self) -> None:
        self._host_id = None


class FileSeat:
    """An exclusive `flock` on `bext.db.lock`, held as long as its descriptor is open."""

    def __init__(self, database: Path) -> None:
        self._name = database.name
        self._file = database.with_name(f"{database.name}.lock")
        self._descriptor: int | None = None
        self._host_id: str | None = None
        _seats.add(self)

    def take(self, host: HostRow) -> None:
        if self.mine(host.host_id):
            return
        descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if not _lock(descriptor):
            text = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise StoreBusy(f"{self._name} is driven by {_described(text)}", mend="stop that process first")
        self._descriptor, self._host_id = descriptor, host.host_id
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(Holder(host.host_id, host.pid, host.hostname)), 0)

    def leave(self, host_id: str) -> None:
        if self.mine(host_id):
            self.drop()

    def holder(self) -> str | None:
        if self._descriptor is not None:
            return self._host_id
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # Shared, so that those who look do not meet a lock of each other.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(os.pread(descriptor, 4096, 0))
            return holder.host_id if holder is not None else None
        else:
            return None
        finally:
            os.close(descriptor)

    def mine(self, host_id: str) -> bool:
        return self._descriptor is not None and self._host_id == host_id

    def drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor, self._host_id = None, None


_seats: weakref.WeakSet[FileSeat] = weakref.WeakSet()


def _drop_all() -> None:
    """In a forked child: its copy of a descriptor would keep the lock after its parent's death."""
    for seat in _seats:
        seat.drop()


os.register_at_fork(after_in_child=_drop_all)


def _lock(descriptor: int) -> bool:
    """Tries for a moment: somebody who only looks whether the seat is taken holds a shared lock for a few µs."""
    pause = threading.Event()
    for _ in range(_RETRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_PAUSE_S)
        else:
            return True
    return False


def _read(text: bytes) -> Holder | None:
    try:
        return msgspec.json.decode(text, type=Holder)
    except msgspec.DecodeError:
        return None


def _described(text: bytes) -> str:
    holder = _read(text)
    return "another process" if holder is None else f"process {holder.pid} on host {holder.hostname}"
