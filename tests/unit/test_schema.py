"""JSON Schemas of what is sent to a run (semantics §9): what is refused at load, and what is said of a value."""

from __future__ import annotations

import pytest

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.schema import schema_fault, value_fault

TREE: JsonObject = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "anyOf": [
                {"type": "null"},
                {"type": "object", "properties": {"left": {"allOf": [{"$ref": "#/$defs/tree"}]}}},
            ]
        }
    },
}


TEXT: JsonObject = {"$anchor": "t", "type": "string"}


def tree(depth: int) -> Json:
    grown: Json = None
    for _ in range(depth):
        grown = {"left": grown}
    return grown


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "x.json"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "#nowhere"},
        {"$dynamicRef": "#nowhere"},
        {"$ref": "#/title", "title": "no schema"},
        {"$ref": "#/x-own", "x-own": {"type": 12}},
        {"$ref": "#/allOf/word", "allOf": [{}]},
        {"properties": {"deep": {"items": {"not": {"$ref": "#/$defs/nowhere"}}}}},
        {"$id": "urn:a", "$defs": {"b": {"$id": "urn:b", "$ref": "#/$defs/c"}, "c": {}}},
    ],
    ids=str,
)
def test_a_reference_that_leads_out_or_nowhere_is_refused_at_load(schema: JsonObject) -> None:
    """At the door it would be an error of the host, and no signal could come in."""
    fault = schema_fault(schema)
    assert fault is not None
    assert "which is no schema in it" in fault


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/text", "$defs": {"text": {"type": "string"}}},
        {"$ref": "#text", "$defs": {"a": {"$anchor": "text", "type": "string"}}},
        {"$ref": "urn:text", "$defs": {"a": {"$id": "urn:text", "type": "string"}}},
        {"$dynamicRef": "#text", "$defs": {"a": {"$dynamicAnchor": "text", "type": "string"}}},
        {"$id": "urn:a", "$ref": "urn:b", "$defs": {"b": {"$id": "urn:b", "$ref": "#t", "$defs": {"c": TEXT}}}},
    ],
    ids=str,
)
def test_a_reference_within_is_followed(schema: JsonObject) -> None:
    assert schema_fault(schema) is None
    assert value_fault(schema, 1) == ("$", "1 is not of type 'string'")


def test_what_only_looks_like_a_reference_is_none() -> None:
    schema: JsonObject = {"properties": {"$ref": {"type": "string"}}, "not": {"const": {"$ref": "x.json"}}}
    assert schema_fault(schema) is None
    assert value_fault(schema, {"$ref": 1}) == ("$['$ref']", "1 is not of type 'string'")


def test_a_value_too_deep_for_its_schema_is_refused_and_no_error_of_the_host() -> None:
    """P46: a payload may be 200 deep; a schema that refers to itself needs several calls a level."""
    assert schema_fault(TREE) is None
    assert value_fault(TREE, tree(20)) is None
    assert value_fault(TREE, tree(199)) == ("$", "it is nested too deeply to be checked")
