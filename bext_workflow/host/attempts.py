"""The calls of one run that are under way, and how a call is admitted to them."""

from __future__ import annotations

from bext_workflow.core.decide import decide
from bext_workflow.core.input import Intended
from bext_workflow.core.work import Execute, Verify
from bext_workflow.host import invoke
from bext_workflow.host.calls import Calls, PluginCall, kind_of
from bext_workflow.host.progress import Progress
from bext_workflow.host.shop import Shop
from bext_workflow.model.status import Call
from bext_workflow.model.transaction import Transact
from bext_workflow.plugin.hooks import Hook
from bext_workflow.ports.store import Committed, Refused


class Running:
    """What is under way, by key; of each branch at most one call of its step."""

    def __init__(self) -> None:
        self._branches: dict[str, int | None] = {}
        self._steps: dict[int, invoke.Handle] = {}

    def any(self) -> bool:
        return bool(self._branches)

    def __contains__(self, key: str) -> bool:
        return key in self._branches

    def of_branch(self, branch_id: int) -> bool:
        """Whether a call of the branch's step is under way."""
        return branch_id in self._steps

    def began(self, action: PluginCall, handle: invoke.Handle) -> None:
        branch = action.branch if isinstance(action, Execute | Verify) and kind_of(action) is Call.STEP else None
        self._branches[action.key] = branch
        if branch is not None:
            self._steps[branch] = handle

    def ended(self, key: str) -> None:
        branch = self._branches.pop(key)
        if branch is not None:
            del self._steps[branch]

    def interrupt(self) -> None:
        """A person wants all attempts of steps to end now. An undo is not theirs to cancel (semantics §5)."""
        for handle in self._steps.values():
            handle.end(invoke.Interrupted())


class Admission:
    """Before a call: whether it may be made, and its intent."""

    def __init__(self, shop: Shop, progress: Progress, calls: Calls, running: Running) -> None:
        self._shop = shop
        self._progress = progress
        self._calls = calls
        self._running = running

    async def admitted(self, action: PluginCall, hook: Hook, transact: Transact | None = None) -> invoke.Call | None:
        """The call, with its intent durable where that must come first; None if it had better not be made now."""
        if self._progress.news or self._shop.draining.is_set() or not self._shop.lease.holds:
            return None
        if not await self._intended(action):
            return None
        # Making the intent durable may have taken long; once it is, the call is made, or nobody knows whether it was.
        await self._shop.lease.until_held()
        call = self._calls.prepare(action, hook, transact)
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
