"""The gate: what a route needs is declared with the route, and asked of whoever sends the request.

A route that declares nothing cannot be mounted; one that is meant for everybody declares `None`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from bext_workflow.model.access import Right
from bext_workflow.model.json import JsonObject
from bext_workflow.service.administration import Access
from bext_workflow.service.caller import acting

SCHEME = "token"
"""The name under which the description of the API knows bearer tokens."""

_NEEDS = "x-bext-scope"
_NOTHING = "none"


def declared(needs: Right | None) -> JsonObject:
    """What a route says in the description of the API about who may use it."""
    if needs is None:
        return {_NEEDS: _NOTHING, "security": []}
    return {_NEEDS: needs.value, "security": [{SCHEME: []}]}


def needs_of(route: BaseRoute) -> Right | None:
    """Raises `TypeError` for a route that declares nothing."""
    extra = route.openapi_extra if isinstance(route, APIRoute) else None
    if extra is None or _NEEDS not in extra:
        raise TypeError(f"{route!r} declares no scope: describe it with `documented`")
    return None if extra[_NEEDS] == _NOTHING else Right(extra[_NEEDS])


class Gate:
    """A dependency of every route: lets in who may, and tells the services who it is."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        needs = needs_of(request.scope["route"])
        if needs is None:
            yield
            return
        caller = await self._access.caller(bearer_of(request))
        caller.require(needs)
        with acting(caller):
            yield


def mount_behind(app: FastAPI, gate: Gate, router: APIRouter, *, prefix: str = "") -> None:
    """The routes of a router, each with the gate before it. Raises `TypeError` for one that declares nothing."""
    for route in router.routes:
        needs_of(route)
    app.include_router(router, prefix=prefix, dependencies=[Depends(gate)])


def bearer_of(request: Request) -> str | None:
    """The token of `Authorization: Bearer TOKEN`, if that is what the header says."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
