"""The checkout saga: reserve stock, charge the card, send the receipt; refund and release when it cannot be finished.

Each step is one call of one service with `run.idempotency_key`, and says with its outcome how the call ended: the
host does the rest. The plugin keeps nothing between two calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec.structs import replace

from bext_workflow import (
    RetryPolicy,
    StepDefinition,
    StepOutcome,
    WorkflowDefinition,
    WorkflowError,
    WorkflowRun,
    hookimpl,
)
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.rehearsal import Rehearsal
from bext_workflow_pg import sandbox
from bext_workflow_pg.errors import Refused, Transient
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.opening import open_ledger, open_store
from bext_workflow_pg.order import read_order
from bext_workflow_pg.rehearsal import rehearse_checkout
from bext_workflow_pg.settings import in_store, ledger_location

CHECKOUT = WorkflowDefinition(
    id="checkout",
    version=1,
    description="Reserve stock, charge the card, send the receipt.",
    steps=(
        StepDefinition(
            name="reserve_stock",
            retries=RetryPolicy(max_attempts=3, backoff_ms=500, backoff_multiplier=2.0, max_backoff_ms=5000),
            compensate_on_failure=True,
        ),
        StepDefinition(
            name="charge_card",
            retries=RetryPolicy.none(),
            idempotent=False,
            compensate_on_failure=True,
        ),
        StepDefinition(
            name="send_receipt",
            retries=RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=10_000),
        ),
    ),
)

TRANSACTIONAL = replace(CHECKOUT, steps=tuple(replace(step, transactional=True) for step in CHECKOUT.steps))
"""The same where the ledger is in the database of the store: each step acts with its checkpoint, or not at all."""


class CheckoutPlugin:
    """The hooks. `open_ledger` is called with the ledger's location when the host starts."""

    def __init__(self, open_ledger: Callable[[str], Awaitable[Ledger]] = open_ledger) -> None:
        self._open_ledger = open_ledger
        self._location: str | None = None
        self._checkout = CHECKOUT
        self._ledger: Ledger | None = None

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            raise RuntimeError("the ledger is open inside lifespan() only")
        return self._ledger

    @hookimpl
    def name(self) -> str:
        return "workflow-pg"

    @hookimpl
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        self._location = ledger_location(config, host)
        self._checkout = TRANSACTIONAL if in_store(self._location, host.store) else CHECKOUT

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        if self._location is None:
            raise RuntimeError("configure() comes before lifespan()")
        self._ledger = ledger = await self._open_ledger(self._location)
        try:
            yield
        finally:
            self._ledger = None
            await ledger.close()

    @hookimpl
    def open_store(self, url: str) -> object:
        return open_store(url)

    @hookimpl
    def rehearse(self) -> Rehearsal:
        return rehearse_checkout(CheckoutPlugin)

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return [self._checkout]

    @hookimpl
    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        match step_name:
            case "reserve_stock":
                return await self._reserve_stock(run)
            case "charge_card":
                return await self._charge_card(run)
            case "send_receipt":
                return await self._send_receipt(run)
            case other:
                raise WorkflowError.step_not_found(other)

    @hookimpl
    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        try:
            match step_name:
                case "reserve_stock":
                    await self._release_stock(run)
                case "charge_card":
                    await self._refund_card(run)
                case "send_receipt":
                    pass  # A mail that was sent stays sent.
                case other:
                    raise WorkflowError.step_not_found(other)
        except Transient as error:
            raise WorkflowError(str(error), retryable=True) from error
        except Refused as error:
            raise WorkflowError(str(error)) from error

    async def _reserve_stock(self, run: WorkflowRun) -> StepOutcome:
        try:
            order = read_order(run.context)
            sandbox.warehouse(order.sku, run.attempt)
            async with self._ledger_for(run) as ledger:
                reservation = await ledger.reserve(run.idempotency_key, order)
        except Transient as error:
            return StepOutcome.Retry(after_ms=500, reason=str(error))
        except Refused as error:
            return StepOutcome.Fail(str(error), compensate=False)  # Nothing to undo yet.
        return StepOutcome.Continue({"reservation_id": reservation.id})

    async def _charge_card(self, run: WorkflowRun) -> StepOutcome:
        try:
            order = read_order(run.context)
            sandbox.card_network(order.payment_method, run.attempt)
            async with self._ledger_for(run) as ledger:
                charge = await ledger.charge(run.idempotency_key, order)
        except Transient as error:
            return StepOutcome.Retry(reason=str(error))
        except Refused as error:
            return StepOutcome.Fail(str(error), compensate=True)  # Roll back the reservation.
        return StepOutcome.Continue({"charge_id": charge.id})

    async def _send_receipt(self, run: WorkflowRun) -> StepOutcome:
        try:
            order = read_order(run.context)
            sandbox.mail_server(order.email)
            async with self._ledger_for(run) as ledger:
                receipt = await ledger.send(run.idempotency_key, order)
        except Transient as error:
            return StepOutcome.Retry(reason=str(error))
        except Refused as error:
            return StepOutcome.Fail(str(error), compensate=True)  # Refund, then release.
        return StepOutcome.Continue({"receipt_id": receipt.id})

    @asynccontextmanager
    async def _ledger_for(self, run: WorkflowRun) -> AsyncIterator[Ledger]:
        """The ledger; in the transaction of the step's own checkpoint, if it has one."""
        if run.transactional:
            async with run.transaction() as database:
                yield self.ledger.within(database)
        else:
            yield self.ledger

    async def _release_stock(self, run: WorkflowRun) -> None:
        sandbox.warehouse_return(run.context.get("sku"), run.attempt)
        await self.ledger.release(
            run.idempotency_key, of=_forward_key(run), reservation_id=run.context.get("reservation_id")
        )

    async def _refund_card(self, run: WorkflowRun) -> None:
        await self.ledger.refund(run.idempotency_key, of=_forward_key(run), charge_id=run.context.get("charge_id"))


def _forward_key(run: WorkflowRun) -> str:
    """The key of the step that is undone. The context need not have an id: the step may never have returned."""
    return run.idempotency_key.removesuffix(":compensate")
