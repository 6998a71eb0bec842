"""What the demo orders, with the reference plugin's test values, and the config that it is served with."""

from __future__ import annotations

from typing import NamedTuple

from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus

WORKFLOW = "checkout"

STEPS = ("reserve_stock", "charge_card", "send_receipt")

CONFIG = """\
[host]
store = "sqlite:demo.db"

[[plugins]]
name = "workflow-pg"
source = "@bext/workflow-pg"

[[plugins.workflows]]
id = "checkout"
version = 1
steps = [
    { name = "reserve_stock" },
    # The card is tried again, after waits that are long enough to be seen.
    { name = "charge_card", retries = { max_attempts = 3, backoff_ms = 1000, backoff_multiplier = 2.0 } },
    { name = "send_receipt" },
]
"""


class Order(NamedTuple):
    """One order, how it must end, and what it is to show."""

    shows: str
    ends: WorkflowStatus
    sku: str = "widget"
    quantity: int = 1
    payment_method: str = "pm_ok"
    email: str = "ada@example.com"

    def context(self, order_id: str) -> JsonObject:
        return {
            "order_id": order_id,
            "sku": self.sku,
            "quantity": self.quantity,
            "payment_method": self.payment_method,
            "email": self.email,
        }


ORDERS = (
    Order("all goes well", WorkflowStatus.COMPLETED),
    Order("the card is declined: release the stock", WorkflowStatus.COMPENSATED, payment_method="pm_declined"),
    Order("the warehouse is flaky: try again", WorkflowStatus.COMPLETED, sku="flaky"),
    Order("the card network is flaky: try again", WorkflowStatus.COMPLETED, payment_method="pm_flaky"),
    Order("the receipt bounces: refund, then release", WorkflowStatus.COMPENSATED, email="bounce@example.com"),
    Order("nobody knows the SKU: nothing to undo", WorkflowStatus.FAILED, sku="unknown"),
    Order("the release is jammed: a person must look", WorkflowStatus.FAILED, sku="jammed", email="bounce@example.com"),
    Order("a bigger order goes well too", WorkflowStatus.COMPLETED, quantity=3),
)
