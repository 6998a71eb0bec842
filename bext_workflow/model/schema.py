"""JSON Schemas (draft 2020-12) of what is sent to a run. Its library is loaded only where there is a schema."""

from __future__ import annotations

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
    return _reference_fault(schema)


def value_fault(schema: JsonObject, value: Json) -> tuple[str, str] | None:
    """(JSON path, reason) of what is wrong with the value most of all; None if nothing is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry

    try:
        error = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(value))
    except RecursionError:  # a schema that refers to itself goes as deep as the value does, several calls a level
        return "$", "it is nested too deeply to be checked"
    return None if error is None else (error.json_path, _short(error.message))


def _reference_fault(schema: JsonObject) -> str | None:
    """The first reference that leads to no schema within this one; None if all do. The registry fetches nothing."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    found = [(root, Registry().resolver_with_root(root))]
    for place, resolver in found:
        found += [(part, resolver.in_subresource(part)) for part in place.subresources()]
    schemas = {id(place.contents) for place, _ in found}
    for place, resolver in found:
        for reference in _references(place.contents):
            try:
                target = resolver.lookup(reference).contents
            except (Unresolvable, ValueError):  # the latter for a word where an array wants a number
                target = None
            if id(target) not in schemas:
                return f"it refers to {reference!r}, which is no schema in it; nothing is fetched"
    return None


def _references(schema: Json) -> list[str]:
    """What one schema refers to; those within it say it for themselves."""
    if not isinstance(schema, dict):
        return []
    return [target for key in ("$ref", "$dynamicRef") if isinstance(target := schema.get(key), str)]


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
