"""The reference plugin of bext-workflow: the checkout saga over a real ledger."""
