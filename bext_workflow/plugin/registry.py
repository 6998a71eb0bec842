"""What the host serves: the plugins that the config names, each resolved inside its own error boundary (semantics §12).

Takes plain data, so that it knows nothing of files. After loading, nothing of pluggy is left in the way of a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from types import ModuleType
from typing import TypeAlias, assert_never

import msgspec

from bext_workflow.errors import BextError, PluginError
from bext_workflow.model.context import copy_json
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.json import JsonObject
from bext_workflow.model.schedule import ScheduleDefinition
from bext_workflow.plugin.discovery import Origin, instantiated, load, locate
from bext_workflow.plugin.hooks import Hook, read_hooks
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.overlay import WorkflowEntry, define, overlay
from bext_workflow.plugin.schedules import ScheduleEntry, laid_over, own_schedules

_HOOK_MEND = "`bext-host check` shows this without serving"


class Isolation(StrEnum):
    """Where a plugin's code runs: in the host's process, or in processes of its own."""

    INLINE = "inline"
    PROCESS = "process"


class PluginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as the config names it. `config` of None: no `[plugins.config]`. Secrets in it are resolved."""

    name: str
    source: str | None = None
    isolation: Isolation = Isolation.INLINE
    config: JsonObject | None = None
    workflows: tuple[WorkflowEntry, ...] = ()
    schedules: tuple[ScheduleEntry, ...] = ()


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is ready to be called. A hook that it does not implement is None."""

    name: str
    distribution: str
    version: str
    entry_point: str
    isolation: Isolation = Isolation.INLINE
    hooks: frozenset[str]
    definitions: tuple[WorkflowDefinition, ...]
    schedules: tuple[ScheduleDefinition, ...] = ()
    run_step: Hook
    compensate_step: Hook | None = None
    verify_step: Hook | None = None
    on_workflow_complete: Hook | None = None
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None
    open_store: Callable[[str], object] | None = None
    rehearse: Callable[[str], object] | None = None


Isolate: TypeAlias = Callable[[PluginSpec, HostInfo], Plugin]
"""Loads a plugin into processes of its own. Raises `PluginError`."""


class Served(msgspec.Struct, frozen=True):
    """A workflow version and the one plugin that is called for it."""

    definition: WorkflowDefinition
    plugin: Plugin


class Scheduled(msgspec.Struct, frozen=True):
    """A schedule and the name of the plugin that it belongs to."""

    definition: ScheduleDefinition
    plugin: str


class LeftOut(msgspec.Struct, frozen=True):
    """A plugin, or a schedule, that the config names and that cannot be used.

    `workflows` are the ids that the config gives the plugin.
    """

    name: str
    error: BextError
    workflows: tuple[str, ...] = ()


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All plugins in the config's order. `served` is by (workflow id, version), `schedules` by id.

    `unscheduled` are schedules whose workflow is not served.
    """

    plugins: tuple[Plugin, ...]
    served: Mapping[tuple[str, int], Served]
    schedules: Mapping[str, Scheduled] = {}
    left_out: tuple[LeftOut, ...] = ()
    unscheduled: tuple[LeftOut, ...] = ()

    def highest(self, workflow: str) -> Served | None:
        """The highest version of the workflow that is served, if any is."""
        versions = [version for id_, version in self.served if id_ == workflow]
        return self.served[workflow, max(versions)] if versions else None

    def to_start(self, schedule: ScheduleDefinition) -> Served | None:
        """What the schedule starts, if it is served."""
        if schedule.version is None:
            return self.highest(schedule.workflow)
        return self.served.get((schedule.workflow, schedule.version))


def load_plugins(
    specs: Iterable[PluginSpec], host: HostInfo, *, isolate: Isolate | None = None, degraded: bool = False
) -> Registry:
    """Finds, imports, validates and configures the plugins, one by one; no other plugin is imported.

    One that is to run in processes of its own is not imported here: `isolate` asks it there what it has.

    Raises the first `PluginError`, or `ConfigError` of an overlay; with `degraded` such a plugin is left out instead,
    and so is a schedule of a workflow that is not served.
    """
    plugins: list[Plugin] = []
    served: dict[tuple[str, int], Served] = {}
    schedules: dict[str, Scheduled] = {}
    left_out: list[LeftOut] = []
    entries: dict[str, ScheduleEntry] = {}
    for spec in specs:
        try:
            plugin = _overlaid(_loaded(spec, host, isolate), spec)
            _refuse_taken(plugin, served, schedules)
        except BextError as error:
            if not degraded:
                raise
            left_out.append(LeftOut(spec.name, error, tuple(entry.id for entry in spec.workflows)))
            continue
        plugins.append(plugin)
        served.update({(own.id, own.version): Served(own, plugin) for own in plugin.definitions})
        schedules.update({own.id: Scheduled(own, plugin.name) for own in plugin.schedules})
        entries.update({entry.id: entry for entry in spec.schedules})
    registry = Registry(plugins=tuple(plugins), served=served, left_out=tuple(left_out))
    return _scheduled(registry, schedules, entries, degraded=degraded)


def _scheduled(
    registry: Registry, schedules: Mapping[str, Scheduled], entries: Mapping[str, ScheduleEntry], *, degraded: bool
) -> Registry:
    """The registry with the schedules whose workflow it serves, whichever plugin's that is. Raises for others."""
    fit = {id_: one for id_, one in schedules.items() if registry.to_start(one.definition) is not None}
    unfit = [
        LeftOut(f"schedule {id_}", _unserved(registry, one, entries.get(id_)))
        for id_, one in schedules.items()
        if id_ not in fit
    ]
    if unfit and not degraded:
        raise unfit[0].error
    return msgspec.structs.replace(registry, schedules=fit, unscheduled=tuple(unfit))


def _unserved(registry: Registry, one: Scheduled, entry: ScheduleEntry | None) -> BextError:
    schedule = one.definition
    wanted = schedule.workflow if schedule.version is None else f"{schedule.workflow}@{schedule.version}"
    reason = f"the schedule {schedule.id!r} starts {wanted!r}, which no plugin of the config serves"
    known = ", ".join(sorted(f"{id_}@{version}" for id_, version in registry.served))
    mend = f"there are: {known or 'none'}"
    if entry is not None:
        return entry.fault(reason, mend=mend)
    return PluginError(f"plugin {one.plugin!r}: {reason}", mend=mend)


def load_here(spec: PluginSpec, host: HostInfo) -> Plugin:
    """The plugin in this process, with nothing of the config laid over it. Raises `PluginError`."""
    origin, point = locate(spec.name, spec.source)
    return read_plugin(load(origin, point), origin, spec, host)


def load_given(
    given: object,
    host: HostInfo,
    *,
    config: JsonObject | None = None,
    workflows: tuple[WorkflowEntry, ...] = (),
    origin: Origin | None = None,
) -> Plugin:
    """A plugin that is at hand: a module, a class or an object with hooks. Raises `PluginError`, `ConfigError`.

    `origin` of None: it is nobody's but the caller's, and its name is what it says itself.
    """
    if origin is None:
        kind = given if inspect.isclass(given) or isinstance(given, ModuleType) else type(given)
        origin = Origin(name=kind.__name__, distribution="given", version="as it is", entry_point=kind.__name__)
        plugin = instantiated(given, origin)
        name = _required(read_hooks(plugin, origin), "name", origin)
        said = origin.guarded("name() failed", name.settle, mend=_HOOK_MEND)
        origin = msgspec.structs.replace(origin, name=str(said))
    else:
        plugin = instantiated(given, origin)
    spec = PluginSpec(name=origin.name, config=config, workflows=workflows)
    return _overlaid(read_plugin(plugin, origin, spec, host), spec)


def serving(plugins: Iterable[Plugin], *, scheduled: bool = False) -> Registry:
    """A registry of loaded plugins; with `scheduled`, of their own schedules too.

    Raises `PluginError` for a workflow that two of them serve, and for a schedule of one that none serves.
    """
    registry, schedules = Registry(plugins=(), served={}), dict[str, Scheduled]()
    for plugin in plugins:
        _refuse_taken(plugin, registry.served, schedules)
        served = {(own.id, own.version): Served(own, plugin) for own in plugin.definitions}
        schedules |= {own.id: Scheduled(own, plugin.name) for own in plugin.schedules}
        registry = Registry(plugins=(*registry.plugins, plugin), served={**registry.served, **served})
    return _scheduled(registry, schedules, {}, degraded=False) if scheduled else registry


def read_plugin(given: object, origin: Origin, spec: PluginSpec, host: HostInfo) -> Plugin:
    """What the object has, with nothing of the config laid over it. Raises `PluginError`."""
    hooks = read_hooks(given, origin)
    _check_name(hooks, origin)
    _configure(hooks, origin, spec.config, host)
    return Plugin(
        name=origin.name,
        distribution=origin.distribution,
        version=origin.version,
        entry_point=origin.entry_point,
        hooks=frozenset(hooks),
        definitions=_definitions(hooks, origin, spec),
        schedules=own_schedules(hooks, origin),
        run_step=_required(hooks, "run_step", origin),
        compensate_step=hooks.get("compensate_step"),
        verify_step=hooks.get("verify_step"),
        on_workflow_complete=hooks.get("on_workflow_complete"),
        lifespan=_lifespan(hooks, origin),
        open_store=_open_store(hooks, origin),
        rehearse=_rehearse(hooks, origin),
    )


def _loaded(spec: PluginSpec, host: HostInfo, isolate: Isolate | None) -> Plugin:
    match spec.isolation:
        case Isolation.INLINE:
            return load_here(spec, host)
        case Isolation.PROCESS if isolate is not None:
            return isolate(spec, host)
        case Isolation.PROCESS:
            raise PluginError(f"plugin {spec.name!r} cannot run in a process of its own here", mend='say "inline"')
        case _:
            assert_never(spec.isolation)


def _overlaid(plugin: Plugin, spec: PluginSpec) -> Plugin:
    """The plugin with the config's entries over its own. Raises `ConfigError`."""
    definitions = {(own.id, own.version): own for own in plugin.definitions}
    for entry in spec.workflows:
        key = entry.id, entry.version
        definitions[key] = overlay(definitions[key], entry) if key in definitions else define(entry)
    return msgspec.structs.replace(
        plugin,
        definitions=tuple(definitions.values()),
        schedules=laid_over(plugin.schedules, spec.schedules),
    )


def _required(hooks: Mapping[str, Hook], name: str, origin: Origin) -> Hook:
    if name not in hooks:
        raise origin.fault(f"it has no hook {name}", mend=f"add {name} and mark it with @hookimpl (from bext_workflow)")
    return hooks[name]


def _check_name(hooks: Mapping[str, Hook], origin: Origin) -> None:
    said = origin.guarded("name() failed", _required(hooks, "name", origin).settle, mend=_HOOK_MEND)
    if said != origin.name:
        raise origin.fault(
            f"its name() is {said!r}", mend=f"let name() return {origin.name!r}, as the entry point says"
        )


def _configure(hooks: Mapping[str, Hook], origin: Origin, config: JsonObject | None, host: HostInfo) -> None:
    hook = hooks.get("configure")
    if hook is None:
        if config:
            raise origin.fault(
                f"it takes no config, but the config file gives {', '.join(config)}",
                mend="drop [plugins.config], or add the hook configure(config, host)",
            )
        return

    def configure() -> None:
        try:
            hook.settle(copy_json(config or {}), host)
        except ValueError as error:
            raise origin.fault(f"refuses its config: {error}", mend="correct [plugins.config]") from error

    origin.guarded("configure() failed", configure, mend=_HOOK_MEND)


def _definitions(hooks: Mapping[str, Hook], origin: Origin, spec: PluginSpec) -> tuple[WorkflowDefinition, ...]:
    if "definitions" not in hooks and spec.workflows:
        return ()
    hook = _required(hooks, "definitions", origin)
    given = origin.guarded("definitions() failed", hook.settle, mend=_HOOK_MEND)
    if not isinstance(given, Sequence) or not all(isinstance(one, WorkflowDefinition) for one in given):
        raise origin.fault(
            f"definitions() gave {_shape(given)}", mend="return a list of WorkflowDefinition (from bext_workflow)"
        )
    known: dict[tuple[str, int], WorkflowDefinition] = {}
    for own in given:
        if (own.id, own.version) in known:
            raise origin.fault(
                f"definitions() gives workflow {own.id!r} version {own.version} twice", mend="keep one of them"
            )
        known[own.id, own.version] = own
    return tuple(known.values())


def _shape(given: object) -> str:
    if isinstance(given, Sequence) and not isinstance(given, str):
        kinds = sorted({type(one).__name__ for one in given if not isinstance(one, WorkflowDefinition)})
        return f"a {type(given).__name__} with {', '.join(kinds)} in it"
    return f"a {type(given).__name__}"


def _lifespan(hooks: Mapping[str, Hook], origin: Origin) -> Callable[[], AbstractAsyncContextManager[None]] | None:
    hook = hooks.get("lifespan")
    if hook is None:
        return None

    def enter() -> AbstractAsyncContextManager[None]:
        given = origin.guarded("lifespan() failed", hook.call, mend=_HOOK_MEND)
        if isinstance(given, AbstractAsyncContextManager):
            return given
        raise origin.fault(
            f"lifespan() gave a {type(given).__name__}", mend="put @contextlib.asynccontextmanager before it"
        )

    if hook.is_async:
        raise origin.fault(
            "lifespan is a coroutine function", mend="write it with `yield`, after @contextlib.asynccontextmanager"
        )
    return enter


def _open_store(hooks: Mapping[str, Hook], origin: Origin) -> Callable[[str], object] | None:
    hook = hooks.get("open_store")
    if hook is None:
        return None
    if hook.is_async:
        raise origin.fault("open_store is a coroutine function", mend="return the store; its own open() may be async")

    def open_store(url: str) -> object:
        return origin.guarded("open_store() failed", lambda: hook.call(url), mend=_HOOK_MEND)

    return open_store


def _rehearse(hooks: Mapping[str, Hook], origin: Origin) -> Callable[[str], object] | None:
    hook = hooks.get("rehearse")
    if hook is None:
        return None
    if hook.is_async:
        raise origin.fault("rehearse is a coroutine function", mend="return the Rehearsal; fakes need no waiting")

    def rehearse(workflow: str) -> object:
        return origin.guarded(f"rehearse({workflow!r}) failed", lambda: hook.call(workflow), mend=_HOOK_MEND)

    return rehearse


def _refuse_taken(plugin: Plugin, served: Mapping[tuple[str, int], Served], schedules: Mapping[str, Scheduled]) -> None:
    for schedule in plugin.schedules:
        if schedule.id in schedules:
            raise PluginError(
                f"plugin {plugin.name!r}: the schedule {schedule.id!r} is {schedules[schedule.id].plugin!r}'s already",
                mend="give one of the two another id",
            )
    for own in plugin.definitions:
        taken = served.get((own.id, own.version))
        if taken is not None:
            raise PluginError(
                f"plugin {plugin.name!r}: workflow {own.id!r} version {own.version} is served by "
                f"{taken.plugin.name!r} already",
                mend="give one of the two another id or version, or drop one plugin from the config",
            )
