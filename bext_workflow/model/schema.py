"""JSON Schemas (draft 2020-12) of what is sent to a run. Its library is loaded only where there is a schema."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.model.json import Json, JsonObject

_LONGEST = 300
"""Characters of a reason: the library's words repeat the value."""


def schema_fault(schema: JsonObject) -> str | None:
    """Why this is no schema that can be used; None if it is one. What it refers to must stand in it."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"at {error.json_path}: {_short(error.message)}"
    for reference in _references(schema):
        if not isinstance(reference, str) or not reference.startswith("#"):
            return f"it refers to {reference!r}: nothing is fetched, so that what it refers to must stand in it"
    return None


def value_fault(schema: JsonObject, value: Json) -> tuple[str, str] | None:
    """(JSON path, reason) of what is wrong with the value most of all; None if nothing is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    error = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(value))
    return None if error is None else (error.json_path, _short(error.message))


def _references(schema: Json) -> Iterator[Json]:
    match schema:
        case dict():
            yield from (value for key, value in schema.items() if key in ("$ref", "$dynamicRef"))
            for value in schema.values():
                yield from _references(value)
        case list():
            for value in schema:
                yield from _references(value)
        case _:
            return


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
