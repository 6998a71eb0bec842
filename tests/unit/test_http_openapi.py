from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from bext_workflow.faces.http.examples import EXAMPLES
from bext_workflow.faces.http.openapi import SHAPES
from bext_workflow.model.json import Json, JsonObject
from tests.unit.http_support import MemoryService, app_over, body_of, requests_to


@pytest.fixture
async def document() -> JsonObject:
    async with requests_to(app_over(MemoryService())) as http:
        described: JsonObject = body_of(await http.get("/openapi.json"))
    return described


def operations(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def references(node: Json) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for item in node.values():
            yield from references(item)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


async def test_every_reference_of_the_description_leads_somewhere(document: JsonObject) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(references(document)) <= known
    assert len(known) > 10


async def test_every_operation_has_a_schema_for_its_answer_and_for_its_problems(document: JsonObject) -> None:
    for name, operation in operations(document):
        if "/api/v1/" not in name:
            continue
        for status, response in operation["responses"].items():
            (media_type,) = response["content"]
            problem = status == "default" or int(status) >= 400
            plain = "text/event-stream" if name.endswith("/stream") else "application/json"
            assert media_type == ("application/problem+json" if problem else plain), (name, status)
            assert response["content"][media_type]["schema"], (name, status)


@pytest.mark.parametrize("shape", EXAMPLES, ids=lambda shape: shape.__name__)
def test_an_example_is_one_of_its_shape(shape: type[msgspec.Struct]) -> None:
    text = msgspec.json.encode(EXAMPLES[shape])
    assert msgspec.to_builtins(msgspec.json.decode(text, type=shape)) == EXAMPLES[shape]


async def test_every_shape_has_an_example(document: JsonObject) -> None:
    shapes = {shape.__name__ for shape in SHAPES if isinstance(shape, type)}
    shown = {name for name, schema in document["components"]["schemas"].items() if "examples" in schema}
    assert shapes <= shown


async def test_problems_are_named_by_their_types(document: JsonObject) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if status.isdecimal() and int(status) >= 400 and "/readyz" not in name:
                assert "urn:bext:problem:" in response["description"], (name, status)
    conflict = document["paths"]["/api/v1/runs/{run_id}/cancel"]["post"]["responses"]["409"]["description"]
    assert conflict == "Conflict: `urn:bext:problem:conflict`, `urn:bext:problem:store-busy`"


async def test_operations_have_names_of_their_own(document: JsonObject) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]

    assert len(set(names)) == len(names)
    assert {"start_run", "cancel_run", "signal_run", "resolve_incident"} <= set(names)


@pytest.mark.parametrize(
    ("act", "body", "parameters"),
    [
        ("signals/{name}", {"payload", "id"}, ["run_id", "name"]),
        ("pause", {"reason"}, ["run_id"]),
        ("resume", {"reason"}, ["run_id"]),
    ],
)
async def test_an_act_is_described_with_its_body(
    document: JsonObject, act: str, body: set[str], parameters: list[str]
) -> None:
    operation = document["paths"][f"/api/v1/runs/{{run_id}}/{act}"]["post"]

    (reference,) = references(operation["requestBody"])
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert (schema["properties"].keys(), schema.get("required", [])) == (body, [])
    assert [each["name"] for each in operation["parameters"]] == parameters
    assert {"202", "404", "409", "422"} <= operation["responses"].keys()


async def test_the_parameters_of_a_list_are_those_that_it_reads(document: JsonObject) -> None:
    parameters = {each["name"]: each["schema"] for each in document["paths"]["/api/v1/runs"]["get"]["parameters"]}

    assert list(parameters) == [
        "workflow",
        "version",
        "status",
        "tag",
        "since",
        "until",
        "incident",
        "limit",
        "cursor",
    ]
    assert (parameters["limit"]["minimum"], parameters["limit"]["maximum"]) == (1, 500)


async def test_a_path_parameter_stays_beside_those_of_the_query(document: JsonObject) -> None:
    parameters = document["paths"]["/api/v1/runs/{run_id}/result"]["get"]["parameters"]

    assert [(each["name"], each["in"]) for each in parameters] == [("run_id", "path"), ("wait", "query")]
