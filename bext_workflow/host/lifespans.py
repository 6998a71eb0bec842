"""Plugins open with the host and close with it; one that cannot is named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio

from bext_workflow.errors import BextError, PluginError
from bext_workflow.host.text import describe
from bext_workflow.plugin.registry import Plugin

_CLOSE_S = 3
"""What a plugin may take to close: a pool whose database is gone must not keep the host from ending (P50)."""


@asynccontextmanager
async def opened(plugins: Iterable[Plugin]) -> AsyncIterator[None]:
    """Enters each plugin's `lifespan`, in order, and leaves them in reverse. Raises `PluginError`."""
    async with AsyncExitStack() as stack:
        for plugin in plugins:
            if plugin.lifespan is not None:
                lifespan = plugin.lifespan()
                await _enter(plugin.name, lifespan)
                stack.push_async_callback(_leave, plugin.name, lifespan)
        yield


async def _enter(name: str, lifespan: AbstractAsyncContextManager[None]) -> None:
    try:
        await lifespan.__aenter__()
    except BextError:
        raise
    except Exception as error:
        raise PluginError(
            f"plugin {name!r} cannot start: its lifespan raised {describe(error)}",
            mend="see to what it needs, such as its database, and start again",
        ) from error


async def _leave(name: str, lifespan: AbstractAsyncContextManager[None]) -> None:
    try:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await lifespan.__aexit__(None, None, None)
    except Exception as error:
        raise PluginError(f"plugin {name!r} did not close well: its lifespan raised {describe(error)}") from error
