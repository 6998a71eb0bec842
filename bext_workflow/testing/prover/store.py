"""The store of a proof: it tells what has become durable, and the host can be made to die before or after a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import msgspec

from bext_workflow.model.json import Json, loads
from bext_workflow.ports.store import Append, Committed, LeaseLost, Member, Result
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.stage import StageStore

_CONCLUDE = frozenset(
    {
        "step_completed",
        "step_failed",
        "attempt_failed",
        "attempt_lost",
        "step_compensated",
        "incident_opened",
        "wait_ended",
    }
)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The append by which a call, or a wait, of that visit ends; of `step` "": a call of `on_workflow_complete`."""

    step: str
    visit: int

    def is_in(self, member: Member) -> bool:
        return any(self._is(kind, loads(data)) for kind, data in member.events)

    def _is(self, kind: str, data: Json) -> bool:
        if not self.step:
            return kind == "completion_settled" or (kind == "attempt_failed" and data.get("call") == "complete")
        return kind in _CONCLUDE and data.get("step") == self.step and data.get("visit") == self.visit


class ProofStore(StageStore):
    """`told` hears of each member that has become durable."""

    def __init__(self, clock: FakeClock, told: Callable[[Member, int], None]) -> None:
        super().__init__(clock=clock)
        self._told = told
        self._dies_at: tuple[Checkpoint, bool] | None = None
        self._waited: list[tuple[Checkpoint, anyio.Event]] = []
        self.crashed = False

    def crash(self) -> None:
        """The host is dead from here on; whoever conducts the play brings another."""
        self.dead = self.crashed = True
        self.writes += 1  # or what was to be
        self._moved.set()

    def die_at(self, checkpoint: Checkpoint, *, durable: bool) -> None:
        """The host dies when it makes the checkpoint: `durable` says whether that is kept."""
        self._dies_at = checkpoint, durable

    async def concluded(self, checkpoint: Checkpoint) -> None:
        """Waits until somebody makes the checkpoint durable."""
        event = anyio.Event()
        self._waited.append((checkpoint, event))
        await event.wait()

    def conclude_all(self) -> None:
        """Nobody will make a checkpoint any more that is waited for."""
        for _, event in self._waited:
            event.set()

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        dies = self._dies_at is not None and any(self._dies_at[0].is_in(member) for member in batch)
        if self._dies_at is not None and dies:
            (_, durable), self._dies_at = self._dies_at, None
            if durable:
                await self._written(batch)
            self.crash()
        return await self._written(batch)

    async def _written(self, batch: Sequence[Member]) -> Sequence[Result]:
        if self.dead:
            return [LeaseLost() for _ in batch]
        results = await super().write(batch)
        for member, result in zip(batch, results, strict=True):
            if isinstance(result, Committed):
                self._told(member, member.rid if isinstance(member, Append) else result.rid)
                self._conclude(member)
        return results

    def _conclude(self, member: Member) -> None:
        for waited in [one for one in self._waited if one[0].is_in(member)]:
            self._waited.remove(waited)
            waited[1].set()
