"""`serve`: the host and its HTTP face in one process, from the first check to the last commit."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import anyio
from msgspec.structs import replace

from bext_workflow.app.collector import calm_collector
from bext_workflow.app.logs import logger_for
from bext_workflow.app.parts import Parts, load
from bext_workflow.config import Address, parse_listen
from bext_workflow.errors import ConfigError
from bext_workflow.faces.http.app import HttpApp, Services, create_http_app
from bext_workflow.faces.http.server import opened, serve_http
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Clock
from bext_workflow.service.access import TokenAccess
from bext_workflow.service.caller import current
from bext_workflow.service.wiring import ServeOptions, Target

_INTERRUPTED = 130

_GUARDED = "by token"
_OPEN = "this machine only, without tokens: whoever reaches it may do everything"


async def serve(target: Target, options: ServeOptions, clock: Clock) -> None:
    """Returns after a clean drain. Raises every `BextError` that keeps the host from starting."""
    parts = load(target.config, degraded=options.degraded, clock=clock)
    address = parse_listen(options.listen or parts.config.host.listen)
    telemetry = HostTelemetry(logger_for(options.log_format, options.verbosity))
    for left_out in (*parts.registry.left_out, *parts.registry.unscheduled):
        telemetry.log(names.PLUGIN_LEFT_OUT, plugin=left_out.name, error=str(left_out.error))
    host = parts.host(telemetry, _settings(parts, options))
    access = parts.access()
    app = _http_app(parts, host, telemetry, access, listens_on=address.host)
    calm_collector()
    await parts.store.open(migrate=options.migrate)
    try:
        guarded = await access.guarded()
        if not (guarded or address.loopback):
            raise _unguarded(address)
        # Whatever keeps the host from serving is found out before it drives.
        async with host.seated():
            with opened(address.host, address.port) as door:
                async with host.driving(), anyio.create_task_group() as tasks:
                    tasks.start_soon(_obey_signals, host)
                    announce = partial(_announce, parts, options.ready_file, door.url, guarded=guarded)
                    tasks.start_soon(partial(serve_http, app, door, started=announce))
                    await host.wound_down()
                    tasks.cancel_scope.cancel()
    finally:
        await parts.store.close()
    if host.leaked_threads:
        # The interpreter would wait for threads that nothing can end; everything of ours is closed.
        sys.stderr.flush()
        os._exit(0)


def _settings(parts: Parts, options: ServeOptions) -> HostSettings:
    stated = {"concurrency": options.concurrency, "drain_timeout_ms": options.drain_timeout_ms}
    return replace(parts.settings(), **{name: value for name, value in stated.items() if value is not None})


def _http_app(parts: Parts, host: Host, telemetry: HostTelemetry, access: TokenAccess, *, listens_on: str) -> HttpApp:
    service = parts.service(host, who=current)
    given = Services(
        runs=service,
        operations=service,
        workflows=parts.catalog(),
        schedules=parts.schedules(service, who=current),
        approvals=parts.approvals(service, who=current),
        tokens=parts.tokens(who=current),
        audit=parts.audit(service),
        webhooks=parts.webhooks(who=current),
        bulk=parts.bulk(service, who=current),
        hosts=parts.hosts(),
        access=access,
        host=host,
    )
    return create_http_app(
        given,
        metrics=lambda: telemetry.exposition().decode(),
        allowed_hosts=[listens_on, *parts.config.host.allowed_hosts],
    )


def _unguarded(address: Address) -> ConfigError:
    return ConfigError(
        f"{address.host}:{address.port} is not an address of this machine alone, and there are no access tokens",
        path="listen",
        mend="make one first: bext-host tokens create NAME --scope admin",
    )


async def _obey_signals(host: Host) -> None:
    """The first signal drains, the second one ends the process at once: the journal makes that safe."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            if host.drained.is_set():
                os._exit(_INTERRUPTED)
            print("draining: running steps may end; press Ctrl-C again to stop at once", file=sys.stderr)
            host.drain()


def _announce(parts: Parts, ready_file: Path | None, url: str, *, guarded: bool) -> None:
    served = ", ".join(f"{workflow}@{number}" for workflow, number in parts.registry.served) or "none"
    print(
        f"bext-host {version('bext-workflow')} on {url}\n"
        f"  store      {parts.config.shown_store}\n"
        f"  workflows  {served}\n"
        f"  access     {_GUARDED if guarded else _OPEN}",
        file=sys.stderr,
        flush=True,
    )
    if ready_file is not None:
        draft = ready_file.with_name(f"{ready_file.name}.{os.getpid()}")
        draft.write_text(json.dumps({"url": url, "pid": os.getpid()}))
        draft.replace(ready_file)
