"""What a run waits for, and what has become of its signals, as faces show it (semantics §9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from bext_workflow.core.inbox import read_act
from bext_workflow.core.input import Signalled
from bext_workflow.core.state import Branch, Phase, State, visit_key
from bext_workflow.core.waiting import is_approval
from bext_workflow.model.event import Event, SignalReceived, WaitEnded
from bext_workflow.model.view import SignalState, SignalView, WaitView, instant, instant_or_none
from bext_workflow.model.wait import WaitFor
from bext_workflow.ports.store import InboxRow


def waits_of(state: State, journal: Sequence[tuple[Event, int]]) -> list[WaitView]:
    """The waits that are open, the one that was opened first before the others."""
    open_ = sorted(_open_waits(state), key=lambda pair: pair[0].wait_opened)
    return [
        WaitView(
            step=branch.step,
            visit=branch.visit,
            signal=wait.signal,
            due_at=instant_or_none(wait.due_at),
            opened_at=instant(_at(journal, branch.wait_opened)),
            approval=_approval(state, branch),
        )
        for branch, wait in open_
    ]


def signals_of(journal: Sequence[tuple[Event, int]], inbox: Sequence[InboxRow]) -> list[SignalView]:
    """Every signal that was accepted, in that order, those that no host has taken up yet among them (P26, P27)."""
    known: dict[int, SignalView] = {}
    for event, _ in journal:
        match event:
            case SignalReceived():
                known[event.act] = _received(event)
            case WaitEnded(signal=int(act)):
                known[act] = replace(known[act], state=SignalState.TAKEN)
            case _:
                continue
    return [*known.values(), *_in_the_inbox(inbox)]


def _open_waits(state: State) -> Iterator[tuple[Branch, WaitFor]]:
    for branch in state.branches:
        if branch.phase is Phase.WAITING and branch.wait is not None and branch.child is None:
            yield branch, branch.wait


def _approval(state: State, branch: Branch) -> str | None:
    if not is_approval(state, branch.step):
        return None
    return visit_key(state.run_id, branch.step, branch.visit, branch.place)


def _at(journal: Sequence[tuple[Event, int]], seq: int) -> int:
    """When the event of that seq happened; seqs count from 1 without gaps."""
    return journal[seq - 1][1]


def _received(event: SignalReceived) -> SignalView:
    return SignalView(
        name=event.name,
        id=event.id,
        at=instant(event.accepted_at),
        state=SignalState.LATE if event.late else SignalState.KEPT,
        payload=event.payload,
    )


def _in_the_inbox(inbox: Sequence[InboxRow]) -> Iterator[SignalView]:
    for row in inbox:
        if isinstance(act := read_act(row), Signalled):
            yield SignalView(
                name=act.name, id=act.id, at=instant(act.at), state=SignalState.WAITING, payload=act.payload
            )
