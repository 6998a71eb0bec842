"""The description of the API, derived from the structs that it speaks in: nothing is declared twice."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from fastapi import FastAPI, Response

from bext_workflow.faces.http.access import SCHEME, declared
from bext_workflow.faces.http.examples import EXAMPLES
from bext_workflow.faces.http.problem import MEDIA_TYPE, TYPE_PREFIX, Problem, slugs_of
from bext_workflow.faces.http.shapes import ForkBody, HoldBody, SignalBody, StartBody
from bext_workflow.model.access import Right
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    ChangeView,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentView,
    Page,
    PluginView,
    RunView,
    ScheduleView,
    StatsView,
    TokenView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.service.administration import (
    BulkAnswer,
    BulkRequest,
    CreatedToken,
    CreatedWebhook,
    TokenRequest,
    WebhookRequest,
)
from bext_workflow.service.protocols import (
    Acknowledged,
    CancelPlan,
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    Readiness,
    ResolveRequest,
    RetryRequest,
)

SHAPES: Sequence[Json] = (
    Acknowledged,
    CancelPlan,
    BulkAnswer,
    BulkRequest,
    CancelRequest,
    ChangeView,
    CompleteRequest,
    CreatedToken,
    CreatedWebhook,
    DecideRequest,
    DeliveryView,
    EventView,
    ForkBody,
    HoldBody,
    IncidentView,
    Page[ApprovalView],
    Page[AuditView],
    Page[DeliveryView],
    Page[DriverView],
    Page[EventView],
    Page[FireView],
    Page[IncidentView],
    Page[PluginView],
    Page[RunView],
    Page[ScheduleView],
    Page[TokenView],
    Page[WebhookView],
    Page[WorkflowView],
    Problem,
    Readiness,
    ResolveRequest,
    RetryRequest,
    RunView,
    ScheduleView,
    SignalBody,
    StartBody,
    StatsView,
    TokenRequest,
    TokenView,
    WebhookRequest,
    WebhookView,
    WhyView,
    WorkflowView,
)
"""Every body and answer."""

_REF = "#/components/schemas/{name}"
_REFERENCES, _COMPONENTS = msgspec.json.schema_components(SHAPES, ref_template=_REF)

START_KEY: JsonObject = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes the start safe to repeat: the same key and body answer the same run.",
    "schema": {"type": "string", "minLength": 1},
}


_BEARER: JsonObject = {
    "type": "http",
    "scheme": "bearer",
    "description": "An access token, once there is one: `bext-host tokens create`. `x-bext-scope` says what it needs.",
}

_FRAMEWORKS_OWN: JsonObject = {
    "description": "Validation Error",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}},
}
"""What FastAPI says of every route with a parameter, and never does here: parameters are read by `reading`."""

_ALWAYS = (400, 421, 500)
"""What any request may be answered, whatever it asks for."""

_GATE = (401, 403, 429, 503)
"""What the gate may answer instead of the route."""

_OF_BODIES = (413, 415, 422)
"""What a body may be answered."""


class Described(FastAPI):
    """FastAPI that knows the schemas which `documented` refers to."""

    def openapi(self) -> JsonObject:
        document = super().openapi()
        for operation in (one for methods in document["paths"].values() for one in methods.values()):
            if operation["responses"].get("422") == _FRAMEWORKS_OWN:
                del operation["responses"]["422"]
        shown = {shape.__name__: example for shape, example in EXAMPLES.items()}
        schemas = {
            name: {**schema, "examples": [shown[name]]} if name in shown else schema
            for name, schema in _COMPONENTS.items()
        }
        document["components"] = {"schemas": schemas, "securitySchemes": {SCHEME: _BEARER}}
        return document


def documented(
    summary: str,
    answer: Json,
    *,
    needs: Right | None,
    status: int = 200,
    query: type[msgspec.Struct] | None = None,
    body: type[msgspec.Struct] | None = None,
    also: Sequence[tuple[int, Json]] = (),
    problems: Sequence[int] = (),
) -> JsonObject:
    """The arguments of `add_api_route` that describe a route; `answer` and those in `also` are of `SHAPES`.

    `needs`: what the caller must be allowed to do; None: anybody may ask. A route without it cannot be mounted.
    """
    responses = _refusals(needs, [*problems, *(_OF_BODIES if body is not None else ())])
    for code, shape in ((status, answer), *also):
        responses[code] = _content(HTTPStatus(code).phrase, shape)
    extra: JsonObject = {**declared(needs), "parameters": _parameters(query)}
    if body is not None:
        extra["requestBody"] = {"content": {"application/json": {"schema": _reference(body)}}, "required": True}
    return {
        "summary": summary,
        "status_code": status,
        "response_class": Response,
        "responses": responses,
        "openapi_extra": extra,
    }


def documented_text(summary: str, media_type: str, *, needs: Right | None) -> JsonObject:
    """As `documented`, of a route whose answer is no shape of the API."""
    responses = _refusals(needs)
    responses[200] = {"description": HTTPStatus.OK.phrase, "content": {media_type: {"schema": {}}}}
    return {
        "summary": summary,
        "response_class": Response,
        "responses": responses,
        "openapi_extra": declared(needs),
    }


def keyed(described: JsonObject) -> JsonObject:
    """What `documented` gives, of a route that takes a start key."""
    extra = described["openapi_extra"]
    return {**described, "openapi_extra": {**extra, "parameters": [START_KEY, *extra["parameters"]]}}


def streamed(described: JsonObject) -> JsonObject:
    """What `documented` gives, of a route whose answer is a stream of such events."""
    shown = described["responses"][200]["content"].pop("application/json")
    described["responses"][200]["content"]["text/event-stream"] = shown
    return described


def _refusals(needs: Right | None, problems: Sequence[int] = ()) -> dict[int | str, JsonObject]:
    """The problems of a route, and those of every one."""
    codes = {*problems, *_ALWAYS, *(() if needs is None else _GATE)}
    return {code: _content(_problems_of(code), Problem, MEDIA_TYPE) for code in sorted(codes)}


def _problems_of(status: int) -> str:
    """The phrase of a status, and the types of problems that have it."""
    return f"{HTTPStatus(status).phrase}: {', '.join(f'`{TYPE_PREFIX}{slug}`' for slug in slugs_of(status))}"


def _content(description: str, shape: Json, media_type: str = "application/json") -> JsonObject:
    return {"description": description, "content": {media_type: {"schema": _reference(shape)}}}


def _reference(shape: Json) -> JsonObject:
    return _REFERENCES[SHAPES.index(shape)]


def _parameters(query: type[msgspec.Struct] | None) -> list[JsonObject]:
    """The query string of a shape, field by field."""
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=_REF)
    schema = components[query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]
