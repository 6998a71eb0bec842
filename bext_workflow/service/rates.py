"""How often somebody may ask: a bucket of a second's worth that fills up again as time passes (GCRA)."""

from __future__ import annotations

import math

from bext_workflow.errors import TooManyRequests
from bext_workflow.ports.clock import Clock

_BUCKET_S = 1.0


class Rates:
    """Up to `per_s` requests of each key at once, and `per_s` a second in the long run."""

    def __init__(self, clock: Clock, *, per_s: int) -> None:
        self._clock = clock
        self._step_s = 1 / per_s
        self._full_at: dict[str, float] = {}
        """When the bucket of a key will be full again."""

    def take(self, key: str, who: str) -> None:
        """Counts a request. Raises `TooManyRequests`, which is not counted."""
        now = self._clock.monotonic()
        full_at = max(self._full_at.get(key, now), now) + self._step_s
        wait_s = full_at - now - _BUCKET_S
        if wait_s > 0:
            raise TooManyRequests(
                f"{who} asks more than {round(1 / self._step_s)} times a second",
                mend="ask less often, or raise [host.limits] requests_per_s",
                retry_after_s=math.ceil(wait_s),
            )
        self._full_at[key] = full_at
