"""What webhooks are to be told of a run, made with the append that it is written with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bext_workflow.core.decide import Decision
from bext_workflow.core.state import State
from bext_workflow.model.event import IncidentOpened
from bext_workflow.model.json import JsonObject, dumps
from bext_workflow.model.view import instant
from bext_workflow.model.webhook import OF_STATUS, WebhookEvent
from bext_workflow.ports.clock import Chance
from bext_workflow.ports.store import ApprovalRow, Store
from bext_workflow.ports.webhooks import DeliveryRow, WebhookRow


class Outbox:
    """Goes by the webhooks as they were read last: one that is new is told of what happens a second later."""

    def __init__(self, store: Store, chance: Chance) -> None:
        self._store = store
        self._chance = chance
        self.webhooks: Sequence[WebhookRow] = ()
        """Those that are to be told something."""

    async def refresh(self) -> None:
        """Raises `StoreUnavailable`."""
        self.webhooks = [row for row in await self._store.webhooks() if row.removed_at is None]

    def deliveries_of(
        self, before: State, decision: Decision, asked: Sequence[ApprovalRow], at: int
    ) -> tuple[DeliveryRow, ...]:
        """What is told of the decision, which asks for these approvals. Quick where there is no webhook."""
        if not self.webhooks:
            return ()
        after = decision.state
        told = [(webhook, *one) for one in _told(before, decision, asked) for webhook in self._wanting(after, one[0])]
        return tuple(
            DeliveryRow(
                id=self._chance.new_id(),
                webhook_id=webhook.id,
                run_id=after.run_id,
                event=event,
                body=dumps({"type": event.value, "timestamp": instant(at), "data": _run(after) | data}),
                at=at,
                next_at=at,
            )
            for webhook, event, data in told
        )

    def _wanting(self, state: State, event: WebhookEvent) -> Iterator[WebhookRow]:
        for webhook in self.webhooks:
            if (not webhook.events or event in webhook.events) and (
                not webhook.workflows or state.workflow in webhook.workflows
            ):
                yield webhook


def _told(before: State, decision: Decision, asked: Sequence[ApprovalRow]) -> Iterator[tuple[WebhookEvent, JsonObject]]:
    for event in decision.events:
        if isinstance(event, IncidentOpened):
            about: JsonObject = {"id": event.id, "kind": event.kind, "step": event.step, "reason": event.reason}
            yield WebhookEvent.INCIDENT_OPENED, {"incident": about}
    for approval in asked:
        yield WebhookEvent.APPROVAL_REQUESTED, {"approval": {"id": approval.id, "title": approval.title}}
    status = decision.state.status
    if status is not before.status and status in OF_STATUS:
        yield OF_STATUS[status], {}


def _run(state: State) -> JsonObject:
    """The run as whoever is told may know it: no context, which may hold what is nobody's business."""
    return {
        "run_id": state.run_id,
        "workflow": state.workflow,
        "version": state.version,
        "status": state.status,
        "failure": state.failure,
        "key": state.key,
        "tags": state.tags,
    }
