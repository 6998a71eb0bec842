"""`webhooks create|list|remove|deliveries|redeliver`."""

from __future__ import annotations

from collections.abc import Awaitable

import click
from msgspec.structs import replace

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.arguments import cursor_option, limit_option
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.paging import show_pages
from bext_workflow.faces.cli.values import OneOf
from bext_workflow.model.view import DeliveryView, Page, WebhookView
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import DeliveryQuery, WebhookRequest
from bext_workflow.service.wiring import Reached

_COLUMNS = ("webhook", "url", "events", "workflows", "made")
_DELIVERY_COLUMNS = ("delivery", "event", "state", "tries", "next", "answer")
_STYLES = {DeliveryState.PENDING: "blue", DeliveryState.DELIVERED: "green", DeliveryState.FAILED: "bold red"}

_reason_option = click.option("--reason", default="", help="Why; the audit keeps it.")


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@click.option("--event", "events", type=OneOf(WebhookEvent), multiple=True, help="Only this. Repeatable; else all.")
@click.option("--workflow", "workflows", multiple=True, metavar="WORKFLOW", help="Only of its runs. Repeatable.")
@_reason_option
@click.pass_obj
def create(
    session: Session, url: str, events: tuple[WebhookEvent, ...], workflows: tuple[str, ...], reason: str
) -> None:
    """Have a URL told what happens to runs, and show the secret that signs it: this once."""
    request = WebhookRequest(url=url, events=list(events), workflows=list(workflows), reason=reason)
    created = session.ask(lambda reached: reached.webhooks.create_webhook(request))
    session.output.show(
        created,
        lambda screen: screen.fields(
            [
                ("webhook", Cell(created.made.id, "bold")),
                ("url", Cell(created.made.url)),
                ("secret", Cell(created.secret)),
            ]
        ),
    )
    session.output.note("keep the secret now: it cannot be shown again")


@click.command("list", cls=Command)
@click.pass_obj
def list_webhooks(session: Session) -> None:
    """List the webhooks, those that are removed too, the newest first."""
    webhooks = session.ask(lambda reached: reached.webhooks.webhooks())
    session.output.show_list(webhooks, lambda screen: screen.table(_COLUMNS, map(_row, webhooks), spare="workflows"))


@click.command(cls=Command)
@click.argument("webhook", metavar="WEBHOOK")
@_reason_option
@click.pass_obj
def remove(session: Session, webhook: str, reason: str) -> None:
    """Tell a webhook nothing any more. WEBHOOK is its id, or the beginning of one."""
    removed = session.ask(lambda reached: reached.webhooks.remove_webhook(webhook, reason))
    session.output.show(removed, lambda screen: screen.say(f"the webhook {removed.id} is removed"))


@click.command(cls=Command)
@click.option("--webhook", "webhook_id", metavar="WEBHOOK", help="Only what this one was told.")
@click.option("--run", "run_id", metavar="RUN", help="Only about the run of this whole id.")
@click.option("--state", type=OneOf(DeliveryState), help="Only those in this state.")
@limit_option
@cursor_option
@click.pass_obj
def deliveries(
    session: Session,
    webhook_id: str | None,
    run_id: str | None,
    state: DeliveryState | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List what webhooks were told, the newest first, and what has become of it."""
    query = DeliveryQuery(webhook_id=webhook_id, run_id=run_id, state=state)

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[DeliveryView]]:
        return reached.webhooks.deliveries(replace(query, limit=limit, cursor=cursor))

    show_pages(session, fetch, _DELIVERY_COLUMNS, _delivery_row, limit=limit, cursor=cursor, spare="next")


@click.command(cls=Command)
@click.argument("delivery", metavar="DELIVERY")
@_reason_option
@click.pass_obj
def redeliver(session: Session, delivery: str, reason: str) -> None:
    """Send a delivery again, whatever has become of it. DELIVERY is its whole id."""
    again = session.ask(lambda reached: reached.webhooks.redeliver(delivery, reason))
    session.output.show(again, lambda screen: screen.say(f"the delivery {again.id} is sent again"))


def _row(webhook: WebhookView) -> tuple[Cell, ...]:
    removed = webhook.removed_at is not None
    return (
        Cell(webhook.id, "dim" if removed else "bold"),
        Cell(f"{webhook.url} (removed)" if removed else webhook.url),
        Cell(", ".join(webhook.events) or "all"),
        Cell(", ".join(webhook.workflows) or "all"),
        cells.moment(webhook.created_at),
    )


def _delivery_row(delivery: DeliveryView) -> tuple[Cell, ...]:
    return (
        Cell(delivery.id),
        Cell(delivery.event.value),
        Cell(delivery.state.value, _STYLES[delivery.state]),
        Cell(str(delivery.attempts)),
        cells.moment(delivery.next_at),
        cells.text(delivery.error or delivery.status),
    )
