"""Names that are looked for in a short list, and what to say when they are not there."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from bext_workflow.errors import NotFound


def missing(what: str, name: str, known: Sequence[str]) -> NotFound:
    """The error for a name that is not in `known`, with the nearest one, or all."""
    near = get_close_matches(name, known, n=1)
    if near:
        return NotFound(f"no {what} {name!r}", mend=f"did you mean {near[0]!r}?")
    return NotFound(
        f"no {what} {name!r}", mend=f"there is {', '.join(known)}" if known else f"there is no {what} at all"
    )
