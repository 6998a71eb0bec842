"""The config of the checkout saga, as `bext.config.toml` has it."""

from __future__ import annotations

CONFIG = """\
[[plugins]]
name = "workflow-pg"
source = "@bext/workflow-pg"

[[plugins.workflows]]
id = "checkout"
version = 1
steps = [
    { name = "reserve_stock", retries = { max_attempts = 3, backoff_ms = 500, backoff_multiplier = 2.0, max_backoff_ms = 5000 }, idempotent = true },
    { name = "charge_card",   retries = { max_attempts = 1, backoff_ms = 0,   backoff_multiplier = 1.0, max_backoff_ms = 0 },    idempotent = false },
    { name = "send_receipt",  retries = { max_attempts = 5, backoff_ms = 200, backoff_multiplier = 2.0, max_backoff_ms = 10000 }, idempotent = true },
]
"""  # noqa: E501 — the lines of bext.config.toml as they are
