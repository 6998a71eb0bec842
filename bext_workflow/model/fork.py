"""Parallel work: how a step forks and where its branches join, as a definition declares it (semantics §7)."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from bext_workflow.errors import DefinitionError


class OnConflict(StrEnum):
    """What two branches that set one key to different values mean at the join."""

    FAIL = "fail"
    LAST = "last"


Need: TypeAlias = int | Literal["all", "any"]
"""How many branches must arrive before the join opens."""


class JoinDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stands on the forking step: its branches meet before step `at`, once `need` of them have arrived."""

    at: str
    need: Need = "all"
    on_conflict: OnConflict = OnConflict.FAIL

    def __post_init__(self) -> None:
        try:
            msgspec.structs.force_setattr(self, "on_conflict", OnConflict(self.on_conflict))
        except ValueError:
            raise DefinitionError(f"join.on_conflict is {self.on_conflict!r}", mend='use "fail" or "last"') from None


class MapDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stands on the forking step: one branch for each item of the list `context[over]`, each beginning at step `at`.

    At most `max_concurrency` of them are under way. All meet before step `join`; what they set is gathered, in the
    order of the items, under the key `collect`.
    """

    over: str
    at: str
    join: str
    max_concurrency: int = 10
    collect: str | None = None


class Fork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fork as the journal keeps it: one branch for each of `into`, or for each of `items` items of a map."""

    into: tuple[str, ...] = ()
    items: int | None = None


def arrivals_needed(need: Need, branches: int) -> int:
    """How many of so many branches must arrive. 0 branches: none."""
    if need == "all":
        return branches
    return min(branches, 1 if need == "any" else need)
