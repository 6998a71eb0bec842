"""A plugin that runs in processes of its own, as the registry has it."""

from __future__ import annotations

import os
import subprocess

import msgspec

from bext_workflow.errors import PluginError
from bext_workflow.host.isolation import wire
from bext_workflow.host.isolation.child import COMMAND
from bext_workflow.host.isolation.pool import Pool
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Isolation, Plugin, PluginSpec

_LOAD_S = 60.0
_MEND = "`bext-host check` shows this without serving; what it wrote to standard error may tell why"


def load_apart(spec: PluginSpec, host: HostInfo, *, processes: int, context_bytes: int) -> Plugin:
    """Asks the plugin, in a process that ends with its answer, what it has. Raises `PluginError`."""
    start = wire.Start(
        name=spec.name,
        source=spec.source,
        config=spec.config,
        data_dir=str(host.data_dir),
        store=host.store,
        context_bytes=context_bytes,
        serve=False,
    )
    described = _described(start)
    pool = Pool(msgspec.structs.replace(start, serve=True), processes)
    hooks = {name: pool.hook(name) for name in described.hooks}
    return Plugin(
        name=spec.name,
        distribution=described.distribution,
        version=described.version,
        entry_point=described.entry_point,
        isolation=Isolation.PROCESS,
        hooks=frozenset(described.hooks),
        definitions=described.definitions,
        schedules=described.schedules,
        run_step=hooks["run_step"],
        compensate_step=hooks.get("compensate_step"),
        verify_step=hooks.get("verify_step"),
        on_workflow_complete=hooks.get("on_workflow_complete"),
        lifespan=pool.opened,
    )


def _described(start: wire.Start) -> wire.Described:
    try:
        done = subprocess.run(
            [*COMMAND, str(os.getpid())], input=wire.line(start), stdout=subprocess.PIPE, timeout=_LOAD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise PluginError(f"plugin {start.name!r} is not loaded after {_LOAD_S:.0f} s", mend=_MEND) from None
    try:
        message = wire.from_plugin(done.stdout)
    except msgspec.MsgspecError:
        message = None
    match message:
        case wire.Described():
            return message
        case wire.Refused():
            raise message.error
        case _:
            raise PluginError(
                f"plugin {start.name!r}: its process ended with {done.returncode} before it said what it has",
                mend=_MEND,
            )
