"""From the file to a `Config`: read, check, resolve secrets and paths, turn the plugins into plain data."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from pydantic import ValidationError

from bext_workflow.config.problems import ConfigProblems, key_path, raise_any, translated
from bext_workflow.config.reading import choose_config, read_toml, wrong_nesting
from bext_workflow.config.secrets import masked, resolve
from bext_workflow.config.settings import Host, Plugin, Schedule, Settings, Step, Table, Wait, Workflow
from bext_workflow.config.values import Address, parse_listen, shown_store, store_fault
from bext_workflow.errors import ConfigError, InvalidJson
from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.json import JsonObject, detach, verify
from bext_workflow.plugin.overlay import StepEntry, WorkflowEntry
from bext_workflow.plugin.registry import PluginSpec
from bext_workflow.plugin.schedules import ScheduleEntry

K = TypeVar("K", bound=Hashable)

_SQLITE = "sqlite:"
_MEMORY = "sqlite::memory:"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A config that holds together. `settings` is the file as it stands, `plugins` what `load_plugins` takes.

    `store` is the store's URL, out of its secret if it is one; the path of an SQLite file is absolute.
    """

    file: Path
    settings: Settings
    plugins: tuple[PluginSpec, ...]
    store: str

    @property
    def host(self) -> Host:
        return self.settings.host

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return self.file.parent

    @property
    def shown_store(self) -> str:
        """The store's URL without its password."""
        return shown_store(self.store)

    @property
    def data_dir(self) -> Path:
        """The folder of the store's file, else of the config: where plugins keep files of their own."""
        if self.store == _MEMORY or not self.store.startswith(_SQLITE):
            return self.folder
        return Path(self.store.removeprefix(_SQLITE)).parent

    @property
    def address(self) -> Address:
        return parse_listen(self.host.listen)


def load_config(path: Path | None = None) -> Config:
    """The config in `path`, else in the file that BEXT_CONFIG names, else in the nearest bext.config.toml.

    Raises `ConfigError`; if several things are wrong it is a `ConfigProblems`, which holds them all.
    """
    file = choose_config(path)
    tables = read_toml(file)
    if isinstance(tables.get("plugins"), dict):
        raise wrong_nesting(file)
    try:
        checked = Settings.model_validate(tables)
    except ValidationError as error:
        raise ConfigProblems(translated(error, file)) from None
    raise_any(_duplicates(checked, str(file)))
    problems: list[ConfigError] = []
    plugins: list[PluginSpec] = []
    store = ""
    try:
        store = _store(checked.host.store, file)
    except ConfigError as error:
        problems.append(error)
    for index, plugin in enumerate(checked.plugins):
        try:
            plugins.append(_spec(plugin, file, index, checked.host.limits.context_bytes))
        except ConfigError as error:
            problems.append(error)
    raise_any(problems)
    return Config(file=file, settings=checked, plugins=tuple(plugins), store=store)


def effective(config: Config) -> JsonObject:
    """What `config show` shows: defaults filled in, secrets as `***`. Workflows and schedules hold what they state."""
    return {
        "file": str(config.file),
        "host": {**config.host.model_dump(mode="json"), "store": config.shown_store},
        "plugins": [
            {
                **plugin.model_dump(mode="json", exclude={"config", "workflows", "schedules"}),
                "config": masked(plugin.config or {}),
                "workflows": [_as_stated(one) for one in plugin.workflows],
                "schedules": [_as_stated(one) for one in plugin.schedules],
            }
            for plugin in config.settings.plugins
        ],
    }


def _as_stated(table: Table) -> JsonObject:
    return table.model_dump(mode="json", exclude_unset=True, by_alias=True)


def _duplicates(checked: Settings, file: str) -> Iterator[ConfigError]:
    plugins: dict[str, str] = {}
    workflows: dict[tuple[str, int], str] = {}
    schedules: dict[str, str] = {}
    for i, plugin in enumerate(checked.plugins):
        yield from _twice(plugins, plugin.name, f"plugin {plugin.name!r}", key_path(("plugins", i)), file)
        for j, workflow in enumerate(plugin.workflows):
            path = key_path(("plugins", i, "workflows", j))
            what = f"workflow {workflow.id!r} version {workflow.version}"
            yield from _twice(workflows, (workflow.id, workflow.version), what, path, file)
            steps: dict[str, str] = {}
            for k, step in enumerate(workflow.steps):
                yield from _twice(steps, step.name, f"step {step.name!r}", f"{path}.steps[{k}]", file)
        for j, schedule in enumerate(plugin.schedules):
            path = key_path(("plugins", i, "schedules", j))
            yield from _twice(schedules, schedule.id, f"schedule {schedule.id!r}", path, file)


def _twice(seen: dict[K, str], key: K, what: str, path: str, file: str) -> Iterator[ConfigError]:
    first = seen.setdefault(key, path)
    if first != path:
        yield ConfigError(
            f"{what} stands already at {first}", file=file, path=path, mend="rename or drop one of the two"
        )


def _spec(plugin: Plugin, file: Path, index: int, context_bytes: int) -> PluginSpec:
    path = key_path(("plugins", index))
    return PluginSpec(
        name=plugin.name,
        source=plugin.source,
        isolation=plugin.isolation,
        config=None if plugin.config is None else _plugin_config(plugin.config, file, f"{path}.config"),
        workflows=tuple(
            _workflow_entry(workflow, file, f"{path}.workflows[{place}]")
            for place, workflow in enumerate(plugin.workflows)
        ),
        schedules=tuple(
            _schedule_entry(schedule, file, f"{path}.schedules[{place}]", context_bytes)
            for place, schedule in enumerate(plugin.schedules)
        ),
    )


def _store(stated: str | JsonObject, file: Path) -> str:
    """The URL itself. What a secret holds is never repeated."""
    if isinstance(stated, str):
        url = stated
    else:
        url = resolve({"store": stated}, file.parent, file=str(file), path="host")["store"]
        fault = store_fault(url)
        if fault is not None:
            raise ConfigError(
                f"what the secret holds {fault.reason}", file=str(file), path="host.store", mend=fault.mend
            )
    if not url.startswith(_SQLITE) or url == _MEMORY:
        return url
    return f"{_SQLITE}{file.parent / url.removeprefix(_SQLITE)}"


def _plugin_config(config: JsonObject, file: Path, path: str) -> JsonObject:
    try:
        verify(config)
    except InvalidJson as error:
        raise ConfigError(
            error.reason, file=str(file), path=path + error.path.removeprefix("$"), mend="use plain values"
        ) from None
    return resolve(config, file.parent, file=str(file), path=path)


def _workflow_entry(workflow: Workflow, file: Path, path: str) -> WorkflowEntry:
    return WorkflowEntry(
        id=workflow.id,
        version=workflow.version,
        stated=workflow.stated(but={"id", "version", "steps"}),
        steps=tuple(_step_entry(step) for step in workflow.steps),
        file=str(file),
        path=path,
    )


def _schedule_entry(schedule: Schedule, file: Path, path: str, context_bytes: int) -> ScheduleEntry:
    try:
        detach(schedule.context, max_bytes=context_bytes)
    except InvalidJson as error:
        where = f"{path}.context{error.path.removeprefix('$')}"
        raise ConfigError(error.reason, file=str(file), path=where, mend=error.mend or "use plain values") from None
    return ScheduleEntry(id=schedule.id, stated=schedule.stated(but={"id"}), file=str(file), path=path)


def _step_entry(step: Step) -> StepEntry:
    tables = {"retries", "compensation_retries"} & step.model_fields_set
    return StepEntry(
        name=step.name,
        stated=step.stated(but={"name", "retries", "compensation_retries", "wait", "join", "map"}) | _fork(step),
        retries=step.retries.stated() if "retries" in tables else {},
        compensation_retries=step.compensation_retries.stated() if "compensation_retries" in tables else {},
        wait=None if step.wait is None else _waits(step.wait),
    )


def _waits(wait: Wait) -> JsonObject:
    stated = wait.stated()
    if wait.approval is not None:
        stated["approval"] = wait.approval.stated()
    return stated


def _fork(step: Step) -> JsonObject:
    """What the step states of how it forks, as the definition has it."""
    stated: JsonObject = {}
    if step.join is not None:
        stated["join"] = JoinDefinition(**step.join.stated())
    if step.map is not None:
        stated["map"] = MapDefinition(**step.map.stated())
    return stated
