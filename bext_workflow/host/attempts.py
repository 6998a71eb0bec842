"""The calls of one run that are under way, and how a call is admitted to them."""

from __future__ import annotations

import msgspec

from bext_workflow.core.decide import decide
from bext_workflow.core.input import Intended
from bext_workflow.core.work import Execute, Verify
from bext_workflow.host import invoke
from bext_workflow.host.calls import Calls, PluginCall, kind_of
from bext_workflow.host.progress import Progress
from bext_workflow.host.shop import Shop
from bext_workflow.plugin.hooks import Hook
from bext_workflow.ports.store import Committed, Refused


class _Call(msgspec.Struct, frozen=True):
    """A call that is under way; `branch` is None for an undo and for `on_workflow_complete`."""

    branch: int | None
    handle: invoke.Handle


class Running:
    """What is under way, by key."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    def any(self) -> bool:
        return bool(self._calls)

    def __contains__(self, key: str) -> bool:
        return key in self._calls

    def of_branch(self, branch_id: int) -> bool:
        """Whether a call of the branch is under way."""
        return any(call.branch == branch_id for call in self._calls.values())

    def began(self, action: PluginCall, handle: invoke.Handle) -> None:
        branch = action.branch if isinstance(action, Execute | Verify) else None
        self._calls[action.key] = _Call(branch, handle)

    def ended(self, key: str) -> None:
        del self._calls[key]

    def interrupt(self) -> None:
        """A person wants all of it to end now."""
        for call in self._calls.values():
            call.handle.end(invoke.Interrupted())


class Admission:
    """Before a call: whether it may be made, and its intent."""

    def __init__(self, shop: Shop, progress: Progress, calls: Calls, running: Running) -> None:
        self._shop = shop
        self._progress = progress
        self._calls = calls
        self._running = running

    async def admitted(self, action: PluginCall, hook: Hook) -> invoke.Call | None:
        """The call, with its intent durable where that must come first; None if it had better not be made now."""
        if self._progress.news or self._shop.draining.is_set() or not await self._intended(action):
            return None
        call = self._calls.prepare(action, hook)
        self._running.began(action, call.handle)
        return call

    async def _intended(self, action: PluginCall) -> bool:
        """Makes the intent durable where that must come first; false: acts have arrived instead."""
        if isinstance(action, Verify) or not action.intend:
            return True
        now = self._shop.clock.now()
        branch = action.branch if isinstance(action, Execute) else 0
        decision = decide(self._progress.state, Intended(call=kind_of(action), branch=branch), now=now)
        result = await self._progress.commit(decision, now)
        if isinstance(result, Refused):
            raise RuntimeError(f"the store refused the intent of {action.key}: {result.reason}")
        return isinstance(result, Committed)
