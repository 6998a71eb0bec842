"""Garbage collection, for a process that makes many short-lived objects and hardly any cycles."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 100


def calm_collector() -> None:
    """What was loaded so far is never looked at again, and the rest is looked at less often.

    A collection visits every object that is alive: by the default thresholds that takes a third of the throughput
    (`docs/performance.md`). Reference counting frees nearly everything; only cycles wait, at most 50,000 objects long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
