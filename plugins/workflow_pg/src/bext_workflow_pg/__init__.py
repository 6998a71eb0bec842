"""The reference plugin of bext-workflow: the checkout saga over a real ledger."""

from __future__ import annotations

from bext_workflow_pg.checkout import CheckoutPlugin

plugin = CheckoutPlugin()
