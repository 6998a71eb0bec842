"""What `doctor` says: one thing after the other, whether it is well, and what mends it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bext_workflow.model.json import JsonObject


class Health(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `mend`: what to do about it."""

    what: str
    health: Health
    said: str
    mend: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked at, in order, and what belongs into a bundle: no secret and no run's context."""

    checked: list[Checked]
    facts: JsonObject
