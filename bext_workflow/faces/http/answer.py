"""Answers: views of the service, written by msgspec so that every number arrives exactly as the journal holds it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import Response

ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def respond(
    body: bytes | str,
    status: int = 200,
    *,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A response with the headers that every answer carries."""
    return Response(body, status, headers={**ALWAYS, **(headers or {})}, media_type=media_type)


def answer(view: msgspec.Struct, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """A view as JSON."""
    return respond(msgspec.json.encode(view), status, headers=headers)
