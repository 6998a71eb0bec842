"""The form of every name that a config, a plugin or a caller may choose (semantics §12)."""

from __future__ import annotations

import re

END = "end"
"""The `next` that finishes a branch; reserved as a step name."""

NAME_RULE = "1 to 100 of the characters A-Z a-z 0-9 _ . -"
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,100}")


def is_name(text: str) -> bool:
    """Whether `text` may name a workflow, step, signal or plugin."""
    return _NAME.fullmatch(text) is not None
