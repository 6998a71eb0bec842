"""`/tokens`: who may ask this host, and for what."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_body, read_query
from bext_workflow.faces.http.shapes import HoldBody, NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import Page, TokenView
from bext_workflow.service.administration import CreatedToken, TokenRequest, Tokens


class TokenRoutes:
    """The handlers. The list is short and whole: it has one page."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def router(self) -> APIRouter:
        router = APIRouter(tags=["access"])
        add = router.add_api_route
        add("/tokens", self.list_tokens, methods=["GET"], **_LIST)
        add("/tokens", self.create_token, methods=["POST"], **_CREATE)
        add("/tokens/{token}/revoke", self.revoke_token, methods=["POST"], **_REVOKE)
        return router

    async def list_tokens(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._tokens.tokens())))

    async def create_token(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(await self._tokens.create_token(await read_body(request, TokenRequest)), 201)

    async def revoke_token(self, request: Request, token: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._tokens.revoke_token(token, reason))


_LIST = documented("Every access token there ever was, the newest first", Page[TokenView], needs=Right.ADMIN)
_CREATE = documented(
    "Make an access token; its text is shown here, and nowhere else",
    CreatedToken,
    needs=Right.ADMIN,
    status=201,
    body=TokenRequest,
    problems=[400, 409, 415, 422],
)
_REVOKE = documented(
    "Make a token good for nothing, by its name or its id",
    TokenView,
    needs=Right.ADMIN,
    body=HoldBody,
    problems=[404, 409, 415, 422],
)
