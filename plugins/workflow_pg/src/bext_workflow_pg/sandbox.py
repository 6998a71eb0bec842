"""The well-known test values: what the outside world would do, on demand, as payment providers' sandboxes have it.

They show every path of a saga without a service that has to be broken first. Each function stands for the part of a
service that can say no before anything happens; what it lets pass goes to the ledger.
"""

from __future__ import annotations

from bext_workflow_pg.errors import Refused, Transient

FLAKY_ATTEMPTS = 2


def warehouse(sku: str, attempt: int) -> None:
    """SKU `flaky`: no answer to the first two attempts."""
    if sku == "flaky" and attempt <= FLAKY_ATTEMPTS:
        raise Transient("the warehouse does not answer")


def warehouse_return(sku: str | None, attempt: int) -> None:
    """SKU `jammed`: the first attempt to put it back fails for good, until somebody asks for another one."""
    if sku == "jammed" and attempt == 1:
        raise Refused("the shelf is jammed")


def card_network(payment_method: str, attempt: int) -> None:
    """`pm_ok` works, `pm_declined` does not, `pm_flaky` has a processing error in the first two attempts."""
    match payment_method:
        case "pm_ok":
            return
        case "pm_flaky":
            if attempt <= FLAKY_ATTEMPTS:
                raise Transient("processing error")
        case "pm_declined":
            raise Refused("card declined")
        case other:
            raise Refused(f"unknown payment method: {other}")


def mail_server(email: str) -> None:
    """`bounce@example.com` bounces."""
    if email == "bounce@example.com":
        raise Refused(f"the mail to {email} bounced")
