"""What is sent to a wait, checked at the door (semantics §9)."""

from __future__ import annotations

from bext_workflow.errors import InvalidJson
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.schema import value_fault


def check_payload(schema: JsonObject | None, payload: Json, *, at: str) -> None:
    """Raises `InvalidJson` for a payload that the declared schema refuses; `at` is the payload's own JSON path."""
    fault = None if schema is None else value_fault(schema, payload)
    if fault is not None:
        path, reason = fault
        raise InvalidJson(reason, path=at + path.removeprefix("$"), mend="send what the wait's schema asks for")
