"""What can go wrong around one call of a plugin, and how a case names it: `default@charge_card=crash_after_effect`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bext_workflow.errors import UsageError
from bext_workflow.model.status import Call


class FaultKind(StrEnum):
    """One fault at one call; but for `RETRIES_EXHAUSTED` it hits the first call of its site only."""

    FAIL = "fail"
    RETRY_ONCE = "retry_once"
    RETRIES_EXHAUSTED = "retries_exhausted"
    RAISE = "raise"
    RAISE_AFTER_EFFECT = "raise_after_effect"
    TIME_OUT = "time_out"
    CRASH_BEFORE_EFFECT = "crash_before_effect"
    CRASH_AFTER_EFFECT = "crash_after_effect"
    CRASH_BEFORE_CHECKPOINT = "crash_before_checkpoint"
    CRASH_AFTER_CHECKPOINT = "crash_after_checkpoint"
    CANCEL = "cancel"
    CANCEL_NOW = "cancel_now"
    LOST_LEASE = "lost_lease"


MEANINGS = {
    FaultKind.FAIL: "the step fails for good, and has not acted",
    FaultKind.RETRY_ONCE: "the first attempt finds the service busy",
    FaultKind.RETRIES_EXHAUSTED: "every attempt finds the service busy",
    FaultKind.RAISE: "the call raises, before it has acted",
    FaultKind.RAISE_AFTER_EFFECT: "the call acts, and then raises",
    FaultKind.TIME_OUT: "the call acts, and then hangs",
    FaultKind.CRASH_BEFORE_EFFECT: "the host dies before the call acts",
    FaultKind.CRASH_AFTER_EFFECT: "the host dies when the call has acted and not returned",
    FaultKind.CRASH_BEFORE_CHECKPOINT: "the host dies when the call has returned and nothing of it is durable",
    FaultKind.CRASH_AFTER_CHECKPOINT: "the host dies when the checkpoint is durable and nobody knows",
    FaultKind.CANCEL: "somebody cancels the run while the call is under way",
    FaultKind.CANCEL_NOW: "somebody interrupts the call after it has acted",
    FaultKind.LOST_LEASE: "another host takes the run over, and then the call acts, late",
}

_ON_UNDO = (
    FaultKind.RETRY_ONCE,
    FaultKind.RAISE,
    FaultKind.TIME_OUT,
    FaultKind.CRASH_BEFORE_EFFECT,
    FaultKind.CRASH_AFTER_EFFECT,
    FaultKind.CRASH_BEFORE_CHECKPOINT,
    FaultKind.CRASH_AFTER_CHECKPOINT,
    FaultKind.LOST_LEASE,
)

FAULTS: dict[Call, tuple[FaultKind, ...]] = {
    Call.STEP: tuple(FaultKind),
    Call.UNDO: _ON_UNDO,
    Call.COMPLETE: tuple(kind for kind in _ON_UNDO if kind is not FaultKind.RETRY_ONCE),
}
"""The faults of each kind of call."""

ON_WAIT = (FaultKind.CANCEL, FaultKind.CRASH_BEFORE_CHECKPOINT, FaultKind.CRASH_AFTER_CHECKPOINT)
"""The faults of a wait: its checkpoint is the end of it."""

CRASHES = frozenset(
    {
        FaultKind.CRASH_BEFORE_EFFECT,
        FaultKind.CRASH_AFTER_EFFECT,
        FaultKind.CRASH_BEFORE_CHECKPOINT,
        FaultKind.CRASH_AFTER_CHECKPOINT,
    }
)
"""The ends of a host."""

UNKNOWN = frozenset(
    {
        FaultKind.RAISE,
        FaultKind.RAISE_AFTER_EFFECT,
        FaultKind.TIME_OUT,
        FaultKind.CANCEL_NOW,
        FaultKind.LOST_LEASE,
        *(CRASHES - {FaultKind.CRASH_AFTER_CHECKPOINT}),
    }
)
"""After these nobody knows whether the attempt has acted."""


class Fault(msgspec.Struct, frozen=True):
    """A fault at a site: a visit of a step (`ship`, `ship[2]`, `ship#2`), its undo (`ship:compensate`), `complete#1`.

    A wait is `ask:wait`. In a run that is a sub-workflow its id comes first: `shipping/pack`.
    """

    site: str
    kind: FaultKind

    def __str__(self) -> str:
        return f"{self.site}={self.kind}"


class Choice(msgspec.Struct, frozen=True):
    """At that site the run is sent to `way`: a step, or `signal`, `timeout` or `reject` of a wait."""

    site: str
    way: str

    def __str__(self) -> str:
        return f"{self.site}~{self.way}"


class Path(msgspec.Struct, frozen=True):
    """A start context, by name, and the choices that the prover makes in the plugin's place."""

    context: str
    choices: tuple[Choice, ...] = ()

    def __str__(self) -> str:
        return "+".join([self.context, *map(str, self.choices)])


class Case(msgspec.Struct, frozen=True):
    """One run that is explored; its text is what replays it."""

    path: Path
    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}@{','.join(map(str, self.faults))}" if self.faults else str(self.path)


def read_case(text: str) -> Case:
    """The case of a text. Raises `UsageError`."""
    way, _, faults = text.partition("@")
    context, *choices = way.split("+")
    try:
        return Case(
            Path(context, tuple(Choice(*_two(choice, "~")) for choice in choices)),
            tuple(_fault(fault) for fault in faults.split(",")) if faults else (),
        )
    except ValueError as error:
        raise UsageError(f"{text!r} names no case: {error}", mend="copy it from the prover's output") from None


def _fault(text: str) -> Fault:
    site, kind = _two(text, "=")
    return Fault(site, FaultKind(kind))


def _two(text: str, sign: str) -> tuple[str, str]:
    before, found, after = text.partition(sign)
    if not found:
        raise ValueError(f"{text!r} has no {sign!r}")
    return before, after
