"""`/webhooks`: who is told of what, and what has become of it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from msgspec.structs import asdict

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_body, read_query
from bext_workflow.faces.http.shapes import DeliveriesParameters, HoldBody, NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import DeliveryView, Page, WebhookView
from bext_workflow.service.administration import CreatedWebhook, DeliveryQuery, WebhookRequest, Webhooks


class WebhookRoutes:
    """The handlers."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def router(self) -> APIRouter:
        router = APIRouter(tags=["webhooks"])
        add = router.add_api_route
        add("/webhooks", self.list_webhooks, methods=["GET"], **_LIST)
        add("/webhooks", self.create_webhook, methods=["POST"], **_CREATE)
        add("/webhooks/{webhook_id}/remove", self.remove_webhook, methods=["POST"], **_REMOVE)
        add("/deliveries", self.list_deliveries, methods=["GET"], **_DELIVERIES)
        add("/deliveries/{delivery_id}/redeliver", self.redeliver, methods=["POST"], **_REDELIVER)
        return router

    async def list_webhooks(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._webhooks.webhooks())))

    async def create_webhook(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(await self._webhooks.create_webhook(await read_body(request, WebhookRequest)), 201)

    async def remove_webhook(self, request: Request, webhook_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._webhooks.remove_webhook(webhook_id, reason))

    async def list_deliveries(self, request: Request) -> Response:
        wanted = DeliveryQuery(**asdict(read_query(request, DeliveriesParameters)))
        return answer(await self._webhooks.deliveries(wanted))

    async def redeliver(self, request: Request, delivery_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._webhooks.redeliver(delivery_id, reason), 202)


_LIST = documented("Every webhook there ever was, the newest first", Page[WebhookView], needs=Right.ADMIN)
_CREATE = documented(
    "Have somebody told; the secret that signs it is shown here, and nowhere else",
    CreatedWebhook,
    needs=Right.ADMIN,
    status=201,
    body=WebhookRequest,
    problems=[400, 409, 415, 422],
)
_REMOVE = documented(
    "Tell a webhook nothing any more", WebhookView, needs=Right.ADMIN, body=HoldBody, problems=[404, 409, 415, 422]
)
_DELIVERIES = documented(
    "What webhooks were told, the newest first, and what has become of it",
    Page[DeliveryView],
    needs=Right.ADMIN,
    query=DeliveriesParameters,
    problems=[400, 404, 409],
)
_REDELIVER = documented(
    "Send a delivery again", DeliveryView, needs=Right.ADMIN, status=202, body=HoldBody, problems=[404, 415, 422]
)
