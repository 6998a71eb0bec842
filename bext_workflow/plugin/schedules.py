"""A plugin's schedules: those of its `schedules` hook, with the config's entries over them or beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bext_workflow.errors import ConfigError, DefinitionError
from bext_workflow.model.json import JsonObject
from bext_workflow.model.schedule import ScheduleDefinition
from bext_workflow.plugin.discovery import Origin
from bext_workflow.plugin.hooks import Hook

_MEND = "`bext-host check` shows this without serving"


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A `[[plugins.schedules]]` table: the keys that the config states. `file` and `path` say where it stands."""

    id: str
    stated: JsonObject = {}
    file: str = ""
    path: str = ""

    def fault(self, reason: str, *, mend: str, under: str = "") -> ConfigError:
        """An error of this entry; `under` is the key path inside it, such as `.cron`."""
        return ConfigError(reason, file=self.file, path=self.path + under, mend=mend)


def laid_over(own: Iterable[ScheduleDefinition], entries: Iterable[ScheduleEntry]) -> tuple[ScheduleDefinition, ...]:
    """A plugin's own schedules as they are kept to. Raises `ConfigError` of an entry."""
    by_id = {one.id: one for one in own}
    for entry in entries:
        by_id[entry.id] = _laid_over(by_id.get(entry.id), entry)
    return tuple(by_id.values())


def own_schedules(hooks: Mapping[str, Hook], origin: Origin) -> tuple[ScheduleDefinition, ...]:
    """What the hook `schedules` gives. Raises `PluginError`."""
    hook = hooks.get("schedules")
    if hook is None:
        return ()
    given = origin.guarded("schedules() failed", hook.settle, mend=_MEND)
    if not isinstance(given, Sequence) or not all(isinstance(one, ScheduleDefinition) for one in given):
        raise origin.fault(
            f"schedules() gave a {type(given).__name__} of something else",
            mend="return a list of ScheduleDefinition (from bext_workflow)",
        )
    own: dict[str, ScheduleDefinition] = {}
    for one in given:
        if one.id in own:
            raise origin.fault(f"schedules() gives the schedule {one.id!r} twice", mend="keep one of them")
        own[one.id] = one
    return tuple(own.values())


def _laid_over(own: ScheduleDefinition | None, entry: ScheduleEntry) -> ScheduleDefinition:
    """The entry's stated keys over the plugin's own schedule of that id, or over the defaults."""
    if own is None:
        for key in ("workflow", "cron"):
            if key not in entry.stated:
                raise entry.fault(
                    "is missing", mend="only a schedule that the plugin brings may leave it out", under=f".{key}"
                )
    try:
        if own is None:
            return ScheduleDefinition(id=entry.id, **entry.stated)
        return msgspec.structs.replace(own, **entry.stated)
    except DefinitionError as error:
        raise entry.fault(error.message, mend=error.mend) from None
