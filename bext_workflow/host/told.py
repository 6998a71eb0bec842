"""How a call ended in another process: read there already, so that nothing of the plugin's own crosses over."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bext_workflow.core.input import Answer, End, Failed, Lost, Retried


class StepEnd(msgspec.Struct, frozen=True, tag=True):
    """Of `run_step`."""

    end: End


class UndoEnd(msgspec.Struct, frozen=True, tag=True):
    """Of `compensate_step`; None: it returned."""

    end: Retried | Failed | Lost | None


class VerifyEnd(msgspec.Struct, frozen=True, tag=True):
    """Of `verify_step`."""

    answer: Answer


class CompleteEnd(msgspec.Struct, frozen=True, tag=True):
    """Of `on_workflow_complete`: its error in words, None if it returned."""

    error: str | None


CallEnd: TypeAlias = StepEnd | UndoEnd | VerifyEnd | CompleteEnd


class ProcessEnded(Exception):
    """The process that was to answer is gone; what the attempt has done, nobody knows."""
