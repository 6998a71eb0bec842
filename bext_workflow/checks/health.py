"""From what was found to what is said of it: pure, one function a thing."""

from __future__ import annotations

from collections.abc import Sequence

from bext_workflow.errors import BextError
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports.hosting import Schema, Survey
from bext_workflow.service.health import Checked, Health

SKEW_MS = 1_000
"""By so much the clocks of a host and its store may differ: due times are the store's, and people read both."""

_GIB = 1024**3
_MIB = 1024**2
_LOW_SHARE = 0.1


def broken(what: str, error: BextError) -> Checked:
    """What could not be looked at because of that."""
    return Checked(what=what, health=Health.ERROR, said=error.message, mend=error.mend)


def plugins(registry: Registry) -> Checked:
    if registry.left_out:
        said = "; ".join(f"{one.name}: {one.error.message}" for one in registry.left_out)
        return Checked(what="plugins", health=Health.ERROR, said=said, mend="`bext-host check` says more")
    named = ", ".join(f"{one.name} ({one.distribution} {one.version})" for one in registry.plugins)
    if not named:
        return Checked(what="plugins", health=Health.WARNING, said="none", mend="add a [[plugins]] table")
    return Checked(what="plugins", health=Health.OK, said=named)


def schema(found: Schema) -> Checked:
    said = f"the store has {found.found}, this program speaks {found.spoken}"
    if found.found == found.spoken:
        return Checked(what="schema", health=Health.OK, said=str(found.spoken))
    if not found.found:
        return Checked(what="schema", health=Health.WARNING, said="no tables yet", mend="`bext-host db migrate`")
    mend = "`bext-host db migrate`" if found.found < found.spoken else "upgrade the program"
    return Checked(what="schema", health=Health.ERROR, said=said, mend=mend)


def store(survey: Survey, place: str) -> Checked:
    return Checked(what="store", health=Health.OK, said=f"{place}, {survey.engine}, {_size(survey.bytes)}")


def clock(store_now: int | None, asked: int, answered: int) -> Checked:
    """`asked` and `answered` (ms): this machine's clock before and after the store's was read, somewhere in between."""
    if store_now is None:
        return Checked(what="clock", health=Health.OK, said="the store goes by the clock of this machine")
    ahead_ms = max(asked - store_now, store_now - answered, 0)
    if ahead_ms <= SKEW_MS:
        return Checked(what="clock", health=Health.OK, said=f"it agrees with the store's within {SKEW_MS} ms")
    said = f"this machine's and the store's differ by {ahead_ms} ms"
    return Checked(what="clock", health=Health.WARNING, said=said, mend="let both follow the same time servers")


def disk(free: int, total: int, folder: str) -> Checked:
    said = f"{_size(free)} of {_size(total)} free in {folder}"
    if free < 100 * _MIB:
        return Checked(what="disk", health=Health.ERROR, said=said, mend="free some space: without it work stops")
    if free < _GIB or free < total * _LOW_SHARE:
        return Checked(what="disk", health=Health.WARNING, said=said, mend="free some space before it is needed")
    return Checked(what="disk", health=Health.OK, said=said)


def hosts(alive: Sequence[str], live: int) -> Checked:
    """`alive`: who drives, in words; `live`: how many runs have not ended."""
    if alive:
        return Checked(what="hosts", health=Health.OK, said="; ".join(alive))
    if not live:
        return Checked(what="hosts", health=Health.OK, said="none, and no run is live")
    said = f"none, and {live} runs have not ended"
    return Checked(what="hosts", health=Health.WARNING, said=said, mend="`bext-host serve`")


def incidents(open_: int) -> Checked:
    if not open_:
        return Checked(what="incidents", health=Health.OK, said="none is open")
    said = f"{open_} are open" if open_ > 1 else "one is open"
    return Checked(what="incidents", health=Health.WARNING, said=said, mend="`bext-host incidents list`")


def pooler(survey: Survey) -> Checked:
    if not survey.pooled:
        return Checked(what="pooler", health=Health.OK, said="none between here and the store")
    said = "one shares sessions out: hosts are not woken, and ask every second"
    return Checked(what="pooler", health=Health.WARNING, said=said, mend="let hosts reach the database itself")


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.1f} MiB"
