"""A pgbouncer before a server, in transaction mode: the next transaction may reach another session."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plugins.workflow_pg.tests.programs import run_as_nobody
from plugins.workflow_pg.tests.server import PATIENCE_S, free_port, reachable

PROGRAM = Path("/usr/sbin/pgbouncer")

_CONFIG = """
[databases]
* = host=127.0.0.1 port={server_port} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_idle_timeout = 5
"""


@contextmanager
def pooler(server_port: int, *, size: int = 4) -> Iterator[int]:
    """The port of a pooler with so many sessions before the server of that port; the client names the database."""
    folder = Path(tempfile.mkdtemp(prefix="bext-pooler-"))
    folder.chmod(0o755)
    port = free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(_CONFIG.format(server_port=server_port, port=port, size=size), encoding="utf-8")
    process = run_as_nobody([PROGRAM, config], folder)
    try:
        until = time.monotonic() + PATIENCE_S
        while not reachable(port):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"pgbouncer did not start: {(folder / 'log').read_text(encoding='utf-8')}")
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
