"""Rights: what somebody may do, and who somebody is (operations "Access")."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bext_workflow.errors import NotAllowed, UsageError
from bext_workflow.model.names import NAME_RULE, is_name

ANY = "*"

BY_TOKEN = "token:"  # noqa: S105 - a word, and no secret
"""What the audit puts before a token's name."""


class Right(StrEnum):
    """What a scope allows. START and SIGNAL are of one workflow, `start:checkout`, or of all, `start:*`.

    ADMIN holds every other; none of the others holds another.
    """

    VIEW = "view"
    REVEAL = "reveal"
    START = "start"
    SIGNAL = "signal"
    OPERATE = "operate"
    ADMIN = "admin"


BY_WORKFLOW = frozenset({Right.START, Right.SIGNAL})


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts. `by`: as the audit and the runs name them; `scopes`: what they may.

    `names` are what the `by` of an approval may call them: their own name and their roles. Empty: nobody
    knows who it is.
    """

    by: str
    names: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset({Right.ADMIN.value})

    def may(self, right: Right, workflow: str | None = None) -> bool:
        """Whether a scope allows it; of START and SIGNAL, without a workflow: for some workflow."""
        if Right.ADMIN in self.scopes or right in self.scopes:
            return True
        if right not in BY_WORKFLOW:
            return False
        if workflow is None:
            return any(scope.startswith(f"{right}:") for scope in self.scopes)
        return not self.scopes.isdisjoint({f"{right}:{ANY}", f"{right}:{workflow}"})

    def require(self, right: Right, workflow: str | None = None) -> None:
        """Raises `NotAllowed` unless a scope allows it."""
        if not self.may(right, workflow):
            wanted = f"{right}:{workflow or ANY}" if right in BY_WORKFLOW else right.value
            raise NotAllowed(
                f"{self.by} lacks the scope {wanted!r}",
                mend="use a token that has it; `bext-host tokens create` makes one",
            )


ANONYMOUS = Caller(by="anonymous")
"""Whoever reaches a host that has no tokens: known to nobody, and free to do everything."""


def person(name: str) -> Caller:
    """Somebody at the store itself, as the operating system knows them: what they may is what the store lets them."""
    return Caller(by=name, names=(name,))


def check_scope(scope: str) -> str:
    """Raises `UsageError` for what is no scope."""
    right, colon, workflow = scope.partition(":")
    if right not in set(Right):
        raise UsageError(f"{scope!r} is no scope", mend=f"use {', '.join(_FORMS)}")
    if Right(right) in BY_WORKFLOW:
        if workflow != ANY and not is_name(workflow):
            raise UsageError(f"the scope {scope!r} names no workflow", mend=f"write {right}:* or {right}:WORKFLOW")
    elif colon:
        raise UsageError(f"the scope {scope!r} takes no workflow", mend=f"write {right}")
    return scope


def check_label(name: str, what: str) -> str:
    """Raises `UsageError` for what can name neither a token nor a role."""
    if not is_name(name):
        raise UsageError(f"{name!r} cannot name a {what}", mend=f"use {NAME_RULE}")
    return name


_FORMS = tuple(f"{right}:WORKFLOW" if right in BY_WORKFLOW else right.value for right in Right)
