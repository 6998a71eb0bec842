"""The `source` of a plugin and the distribution that it means (semantics §12)."""

from __future__ import annotations

import re

_SCOPED = re.compile(r"@([A-Za-z0-9][A-Za-z0-9._-]*)/([A-Za-z0-9][A-Za-z0-9._-]*)")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SEPARATORS = re.compile(r"[-_.]+")


def normalised(distribution: str) -> str:
    """The one form of a distribution's name: lower case, words joined by `-` (PEP 503)."""
    return _SEPARATORS.sub("-", distribution).lower()


def distribution_of(source: str) -> str:
    """The distribution, normalised, that `source` means: `@bext/workflow-pg` is `bext-workflow-pg`.

    Raises `ValueError` for what is neither `@scope/name` nor the name of a distribution: a path, a URL, a requirement.
    """
    scoped = _SCOPED.fullmatch(source)
    distribution = "-".join(scoped.groups()) if scoped else source
    if len(distribution) > 200 or not _DISTRIBUTION.fullmatch(distribution):
        raise ValueError(f"{source[:200]!r} names no distribution")
    return normalised(distribution)
