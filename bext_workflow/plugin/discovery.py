"""Finding a plugin among the installed distributions, and importing that one only (semantics §12)."""

from __future__ import annotations

import difflib
import importlib
import inspect
import traceback
from collections.abc import Callable
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import msgspec

import bext_workflow.errors
from bext_workflow.errors import PluginError
from bext_workflow.plugin.markers import PROJECT
from bext_workflow.plugin.source import distribution_of, normalised

T = TypeVar("T")

_MACHINERY = ("<frozen importlib", importlib.__path__[0], str(Path(bext_workflow.errors.__file__).parent))
"""What stands between the host and a plugin's code in a traceback."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a plugin comes from. `entry_point` is its value, `package.module:attribute`."""

    name: str
    distribution: str
    version: str
    entry_point: str

    def fault(self, reason: str, *, mend: str) -> PluginError:
        """An error of this plugin that names where it comes from."""
        where = f"{self.distribution} {self.version}, entry point {self.entry_point}"
        return PluginError(f"plugin {self.name!r} ({where}): {reason}", mend=mend)

    def guarded(self, what: str, act: Callable[[], T], *, mend: str) -> T:
        """Runs the plugin's code inside its error boundary: whatever it raises is a `PluginError`, but for Ctrl-C."""
        try:
            return act()
        except (KeyboardInterrupt, PluginError):
            raise
        except BaseException as error:
            raise self.fault(f"{what}: {cause(error)}", mend=mend) from error


def locate(name: str, source: str | None) -> tuple[Origin, EntryPoint]:
    """The one entry point `name` of the plugins' group, from the distribution that `source` means if it is given.

    Raises `PluginError` if there is none, more than one, or one from elsewhere.
    """
    wanted = None if source is None else distribution_of(source)
    found = {_origin(point): point for point in entry_points(group=PROJECT, name=name)}
    fitting = {origin: point for origin, point in found.items() if wanted in (None, normalised(origin.distribution))}
    match list(fitting.items()):
        case [only]:
            return only
        case []:
            raise _not_found(name, source, [origin.distribution for origin in found])
        case several:
            homes = sorted(origin.distribution for origin, _ in several)
            raise PluginError(
                f"plugin {name!r} is ambiguous: {' and '.join(homes)} both have an entry point by that name",
                mend=f'say which one: source = "{homes[0]}"',
            )


def load(origin: Origin, point: EntryPoint) -> object:
    """Imports the plugin and returns its object; a class is instantiated without arguments."""
    return instantiated(origin.guarded("cannot be imported", point.load, mend=_import_mend(point)), origin)


def instantiated(loaded: object, origin: Origin) -> object:
    """The plugin's object. Raises `PluginError` for a function, and for a class that wants arguments."""
    if inspect.isclass(loaded):
        return origin.guarded(
            f"{loaded.__name__}() failed", loaded, mend="give the class an __init__ without required arguments"
        )
    if isinstance(loaded, ModuleType) or not inspect.isroutine(loaded):
        return loaded
    raise origin.fault(
        "the entry point is a function", mend="let it name a module, a class or an object that has the hooks"
    )


def cause(error: BaseException) -> str:
    """One line of an exception: class, message, and the last line of the plugin's code on the way to it."""
    message = " ".join(str(error).split())[:500]
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    where = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{where}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith(_MACHINERY)


def _origin(point: EntryPoint) -> Origin:
    home = point.dist
    return Origin(
        name=point.name,
        distribution="an unnamed distribution" if home is None else home.name,
        version="" if home is None else home.version,
        entry_point=point.value,
    )


def _not_found(name: str, source: str | None, elsewhere: list[str]) -> PluginError:
    if source is not None and elsewhere:
        return PluginError(
            f"plugin {name!r} comes from {' and '.join(sorted(elsewhere))}, "
            f"not from {distribution_of(source)} as its source {source!r} says",
            mend="install the distribution that is meant, or correct source",
        )
    home = None if source is None else _installed(distribution_of(source))
    if home is not None:
        others = sorted(point.name for point in home.entry_points if point.group == PROJECT)
        return PluginError(
            f"plugin {name!r}: {home.name} {home.version} has no entry point {name!r} in group {PROJECT!r}",
            mend=f"it has: {', '.join(others)}" if others else "it is not a plugin: correct source",
        )
    known = sorted({point.name for point in entry_points(group=PROJECT)})
    return PluginError(
        f"plugin {name!r} is not installed: nothing here has an entry point {name!r} in group {PROJECT!r}",
        mend=_install_mend(name, source, known),
    )


def _install_mend(name: str, source: str | None, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    what = "the distribution that has it" if source is None else distribution_of(source)
    own = "`pip install -e .` where its pyproject.toml stands, if it is yours"
    return f"install {what} in the host's environment ({own}); installed plugins: {', '.join(known) or 'none'}"


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _import_mend(point: EntryPoint) -> str:
    return f"`python -c 'import {point.module}'` shows the whole error"
