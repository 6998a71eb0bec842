"""How a step is retried: numbers only (semantics §3)."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from bext_workflow.errors import DefinitionError


class OnExhausted(StrEnum):
    """What follows when no attempt is left (semantics §3)."""

    COMPENSATE = "compensate"
    FAIL = "fail"
    INCIDENT = "incident"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Attempts, and the waits between them. The default is exponential: 3, 1000, 2.0, 30 000.

    `max_attempts` counts all tries. `jitter` (0.0–1.0) only shortens a wait. `max_elapsed_ms` = 0 means no bound.
    Raises `DefinitionError` for numbers that make no policy.
    """

    max_attempts: int = 3
    backoff_ms: int = 1000
    backoff_multiplier: float = 2.0
    max_backoff_ms: int = 30_000
    jitter: float = 0.0
    max_elapsed_ms: int = 0
    on_exhausted: OnExhausted = OnExhausted.COMPENSATE

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise DefinitionError(f"max_attempts is {self.max_attempts}", mend="it counts all tries: at least 1")
        for name in ("backoff_ms", "max_backoff_ms", "max_elapsed_ms"):
            if getattr(self, name) < 0:
                raise DefinitionError(f"{name} is {getattr(self, name)}", mend="a wait is 0 or more milliseconds")
        if not math.isfinite(self.backoff_multiplier) or self.backoff_multiplier < 1:
            raise DefinitionError(
                f"backoff_multiplier is {self.backoff_multiplier}", mend="a finite number of at least 1"
            )
        try:
            msgspec.structs.force_setattr(self, "on_exhausted", OnExhausted(self.on_exhausted))
        except ValueError:
            words = ", ".join(OnExhausted)
            raise DefinitionError(f"on_exhausted is {self.on_exhausted!r}", mend=f"use one of: {words}") from None
        if not 0.0 <= self.jitter <= 1.0:
            raise DefinitionError(f"jitter is {self.jitter}", mend="a number from 0.0 to 1.0")

    @classmethod
    def none(cls) -> RetryPolicy:
        """One attempt, no wait."""
        return cls(max_attempts=1, backoff_ms=0, backoff_multiplier=1.0, max_backoff_ms=0)

    def delay_ms_for_attempt(self, n: int) -> int:
        """The ms before attempt `n` (from 1): 0, then `backoff_ms * multiplier^(n-2)`, at most `max_backoff_ms`.

        Rounded down; monotone and without overflow for any `n`. Raises `ValueError` for n < 1.
        """
        if n < 1:
            raise ValueError(f"attempts count from 1, not {n}")
        if n == 1 or self.backoff_ms == 0:
            return 0
        if n == 2 or self.backoff_multiplier == 1.0:
            return min(self.max_backoff_ms, self.backoff_ms)
        try:
            delay = self.backoff_ms * self.backoff_multiplier ** (n - 2)
        except OverflowError:
            return self.max_backoff_ms
        return int(min(self.max_backoff_ms, delay))

    def delay_ms(self, n: int, jitter: float) -> int:
        """`delay_ms_for_attempt(n)`, shortened by this policy's share of a draw in [0, 1): in [d(1-jitter), d]."""
        delay = self.delay_ms_for_attempt(n)
        return delay - int(delay * self.jitter * jitter)


DEFAULT_COMPENSATION_RETRIES = RetryPolicy(max_attempts=10, max_backoff_ms=300_000)
"""Undo is tried harder than the step itself (semantics §5)."""
