"""What a checkout is about: the part of the run's context that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from bext_workflow.model.json import Json
from bext_workflow_pg.errors import Refused

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Quantity = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Email = Annotated[str, msgspec.Meta(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One order."""

    order_id: Name
    sku: Name
    quantity: Quantity
    payment_method: Name
    email: Email


def read_order(context: Mapping[str, Json]) -> Order:
    """The order in a run's context. Raises `Refused` with the field that is missing or wrong."""
    given = {field: context[field] for field in Order.__struct_fields__ if field in context}
    try:
        return msgspec.convert(given, Order)
    except msgspec.ValidationError as error:
        raise Refused(f"not an order: {error}") from error
