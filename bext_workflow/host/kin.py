"""What concerns another run: a child is started, stopped, undone; a parent is told of an end (semantics §7).

All of it is safe to repeat: a start has the visit's key, a stop and an undo are judged against the child as it is, and
a parent counts the ends of its children. So the deed comes first, and what is recorded of it afterwards.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import assert_never

from bext_workflow.core.children import being_undone, nothing_left
from bext_workflow.core.input import (
    Cancel,
    ChildCalled,
    ChildEnd,
    ChildStopped,
    ChildUndoing,
    Failed,
    Finished,
    ParentUndo,
    Settled,
    Told,
)
from bext_workflow.core.lineage import result_of
from bext_workflow.core.state import Plan, State
from bext_workflow.core.work import CallChild, Kin, StopChild, TellParent, UndoChild, left_in_place
from bext_workflow.errors import BextError, Conflict, Gone, NotFound
from bext_workflow.host.patience import patiently
from bext_workflow.host.progress import Progress
from bext_workflow.host.shop import Shop
from bext_workflow.model.json import EMPTY
from bext_workflow.model.origin import MAX_NESTED
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Act, Committed, Existing, Loaded, Refused, RunRow
from bext_workflow.service.acting import Build, act_of_host, judge_of
from bext_workflow.service.starting import CHILD_SPACE, NewRun, child_run, create_of, depth_of


class Kinship:
    """One run's dealings with its children and its parent."""

    def __init__(self, shop: Shop, progress: Progress) -> None:
        self._shop = shop
        self._progress = progress

    async def perform(self, action: Kin) -> None:
        """Does it, however long the store takes, and makes it known here. Raises `LostLease`."""
        match action:
            case CallChild(find=True):
                await self._find(action)
            case CallChild():
                await self._call(action)
            case StopChild():
                await self._stop(action)
            case UndoChild():
                await self._undo(action)
            case TellParent():
                await self._tell(action)
            case _:
                assert_never(action)

    @property
    def _state(self) -> State:
        return self._progress.state

    @property
    def _name(self) -> str:
        """Who acts, as the other run's journal has it."""
        return f"run:{self._state.run_id}"

    async def _call(self, action: CallChild) -> None:
        try:
            run_id = await patiently(self._shop.clock, partial(self._started, action))
        except BextError as error:
            reason = f"sub-workflow {self._workflow_of(action)!r} cannot be started: {error.message}"
            end = Failed(reason=reason, compensate=True)
            await self._progress.conclude(Finished(branch=action.branch, end=end))
            return
        self._shop.adopt(run_id)
        await self._progress.conclude(ChildCalled(branch=action.branch, key=action.key, run_id=run_id))

    async def _started(self, action: CallChild) -> str:
        new = await self._new_run(action)
        result = await self._shop.committer.commit(create_of(new, owner=None))
        match result:
            case Committed():
                return new.created.run_id
            case Existing(run_id=str(run_id)):
                return run_id
            case Existing():
                raise Gone("the run that it was has been removed")
            case Refused(reason=reason):
                raise Conflict(f"the store refused it: {reason}")
            case _:
                raise RuntimeError(f"the store answered a start with {result!r}")

    async def _new_run(self, action: CallChild) -> NewRun:
        state, workflow = self._state, self._workflow_of(action)
        if depth_of(state) >= MAX_NESTED:
            raise Conflict(f"runs are nested {MAX_NESTED} deep at most")
        definition = await self._shop.definitions.kept(workflow, *state.versions[workflow])
        children = await self._shop.definitions.children_of(definition)
        new_id, now = self._shop.chance.new_id(), self._shop.clock.now()
        return child_run(state, action, definition, run_id=new_id, at=now, children=children)

    async def _find(self, action: CallChild) -> None:
        """The run is to stop: nothing is started any more, but a child may be there of which a crash left no word."""
        found: RunRow | None = await patiently(
            self._shop.clock, partial(self._shop.store.started, CHILD_SPACE, action.key)
        )
        if found is None:
            await self._progress.move(Settled(branch=action.branch))
        else:
            self._shop.adopt(found.run_id)
            await self._progress.conclude(ChildCalled(branch=action.branch, key=action.key, run_id=found.run_id))

    async def _stop(self, action: StopChild) -> None:
        def build(state: State, act: int) -> Cancel:
            reason = f"its parent {self._state.run_id} stops"
            return Cancel(act=act, by=self._name, reason=reason, compensate=action.compensate, now=action.now)

        # One that has ended, or cannot be stopped, is told nothing: its end is waited for either way.
        with suppress(Conflict, NotFound):
            await self._post(action.run_id, build)
        await self._progress.conclude(ChildStopped(branch=action.branch, run_id=action.run_id))

    async def _undo(self, action: UndoChild) -> None:
        undone = False

        def build(state: State, act: int) -> ParentUndo | None:
            nonlocal undone
            undone = nothing_left(state)
            if undone or being_undone(state):
                return None
            return ParentUndo(act=act, by=self._name, reason=f"its parent {self._state.run_id} is being undone")

        refused = None
        try:
            await self._post(action.run_id, build)
        except (Conflict, NotFound) as error:
            refused = f"the child {action.run_id} cannot be undone: {error.message}"
        await self._progress.conclude(ChildUndoing(run_id=action.run_id, undone=undone, refused=refused))

    async def _tell(self, action: TellParent) -> None:
        state = self._state
        if state.parent is not None and state.key is not None:
            completed = action.status is WorkflowStatus.COMPLETED
            end = ChildEnd(
                act=0,
                key=state.key,
                run_id=state.run_id,
                ending=action.ending,
                status=action.status,
                failure=None if completed else state.failure,
                result=result_of(state) if completed else EMPTY,
                left=bool(left_in_place(state)),
            )
            with suppress(NotFound):  # one that has been removed need not know
                await self._tell_of(end, state.parent.run_id)
        await self._progress.conclude(Told(ending=action.ending))

    async def _tell_of(self, end: ChildEnd, parent: str) -> None:
        def judge(loaded: Loaded) -> Act:
            return act_of_host(end, self._name)

        await patiently(self._shop.clock, lambda: self._shop.store.post(parent, judge, at=self._shop.clock.now()))
        self._shop.adopt(parent)

    async def _post(self, run_id: str, build: Build) -> None:
        """Posts an act to a child, judged against the child as it is. Raises `Conflict`, `NotFound`."""

        async def posted() -> None:
            for row in await self._shop.store.find(run_id, limit=1):
                plan = Plan(definition=await self._shop.definitions.kept(row.workflow, row.version, row.digest))
                now = self._shop.clock.now()
                judge = judge_of(plan, build, by=self._name, reason="", now=now, audited=False)
                await self._shop.store.post(run_id, judge, at=now)
                return
            raise NotFound("it has been removed")

        await patiently(self._shop.clock, posted)
        self._shop.adopt(run_id)

    def _workflow_of(self, action: CallChild) -> str:
        workflow = self._state.plan.step(action.step).workflow
        if workflow is None:
            raise ValueError(f"step {action.step!r} is no sub-workflow")
        return workflow
