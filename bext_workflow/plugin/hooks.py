"""A plugin's hooks as the host calls them: directly, with fixed arguments; pluggy only validates them."""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from types import ModuleType

import msgspec
import pluggy

from bext_workflow.plugin.discovery import Origin
from bext_workflow.plugin.hookspecs import WorkflowPlugin
from bext_workflow.plugin.markers import PROJECT

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "name": (),
    "definitions": (),
    "run_step": ("run", "step_name"),
    "compensate_step": ("run", "step_name"),
    "on_workflow_complete": ("run",),
    "verify_step": ("run", "step_name"),
    "configure": ("config", "host"),
    "schedules": (),
    "lifespan": (),
    "open_store": ("url",),
    "rehearse": ("workflow",),
}
"""Every hook with the arguments that it is called with, in this order."""

SIGNATURES = ", ".join(f"{hook}({', '.join(arguments)})" for hook, arguments in ARGUMENTS.items())


class Hook(msgspec.Struct, frozen=True):
    """One hook of one plugin. `call` takes all arguments of the specification by position, whatever the plugin takes.

    `is_async`: the call returns an awaitable; otherwise it does its work in the calling thread. `room`: where calls
    have to wait for a place, lends one, and gives the hook that is bound to it.
    """

    call: Callable[..., object]
    is_async: bool
    room: Callable[[], AbstractAsyncContextManager[Hook]] | None = None

    def settle(self, *given: object) -> object:
        """Calls the hook and waits for its result, while no event loop of the host is at hand (start-up)."""
        if not self.is_async:
            return self.call(*given)
        with ThreadPoolExecutor(1, thread_name_prefix="bext-plugin-load") as thread:
            return thread.submit(asyncio.run, _awaited(self.call, given)).result()


async def _awaited(call: Callable[..., object], given: tuple[object, ...]) -> object:
    result = call(*given)
    return await result if inspect.isawaitable(result) else result


def read_hooks(plugin: object, origin: Origin) -> dict[str, Hook]:
    """The hooks that the plugin's object implements. Raises `PluginError` for one that is not callable as such."""
    pm = pluggy.PluginManager(PROJECT)
    pm.add_hookspecs(WorkflowPlugin)
    try:
        pm.register(plugin, origin.name)
    except pluggy.PluginValidationError as error:
        raise origin.fault(" ".join(str(error).split()), mend=f"the hooks are {SIGNATURES}") from None
    hooks = {caller.name: _hook(caller, origin) for caller in pm.get_hookcallers(plugin) or ()}
    for unmarked in sorted(_unmarked(plugin, hooks)):
        raise origin.fault(
            f"{unmarked} is not marked as a hook, so it would never be called",
            mend="put @hookimpl (from bext_workflow) before it, or give it another name",
        )
    return hooks


def _hook(caller: pluggy.HookCaller, origin: Origin) -> Hook:
    name = caller.name
    if not caller.has_spec():
        near = difflib.get_close_matches(name, ARGUMENTS, n=1)
        raise origin.fault(
            f"there is no hook {name!r}", mend=f"did you mean {near[0]!r}?" if near else f"the hooks are {SIGNATURES}"
        )
    first, *others = caller.get_hookimpls()
    if others:
        raise origin.fault(f"{name} is implemented {len(others) + 1} times", mend="keep one of them")
    if first.wrapper or first.hookwrapper:
        raise origin.fault(f"{name} is marked as a wrapper", mend="use @hookimpl without arguments")
    for argument in first.kwargnames:
        if argument in ARGUMENTS[name]:
            raise origin.fault(
                f"{name} gives its argument {argument} a default, so it would never be passed",
                mend="drop the default",
            )
    return Hook(_adapted(first.function, first.argnames, ARGUMENTS[name]), inspect.iscoroutinefunction(first.function))


def _adapted(function: Callable[..., object], takes: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., object]:
    """`function` behind the specification's arguments, of which it may take fewer (pluggy's rule)."""
    if takes == given:
        return function
    places = tuple(given.index(argument) for argument in takes)
    return lambda *arguments: function(*(arguments[place] for place in places))


def _unmarked(plugin: object, hooks: Mapping[str, Hook]) -> set[str]:
    """Names of functions of the plugin's own that look like hooks and are not marked."""
    return {name for name in ARGUMENTS if name not in hooks and _is_own_function(plugin, name)}


def _is_own_function(plugin: object, name: str) -> bool:
    found: object = inspect.getattr_static(plugin, name, None)
    function = getattr(found, "__func__", found)
    if not inspect.isfunction(function) or hasattr(function, f"{PROJECT}_spec"):
        return False
    return not isinstance(plugin, ModuleType) or function.__module__ == plugin.__name__
