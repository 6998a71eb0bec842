"""All SQL of the ledger."""

from __future__ import annotations

APPLICATION_ID = 0x62786C67
"""Marks the file as a ledger, so that another database is never taken for one."""
VERSION = 1

# `entries` is append-only but for `calls`. Its two UNIQUE keys are the promise of the ledger: nothing is done twice
# under one key, and nothing is undone twice.
SCHEMA = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
    """
    CREATE TABLE stock (
        sku         TEXT    PRIMARY KEY,
        price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
        delivered   INTEGER NOT NULL CHECK (delivered >= 0),
        available   INTEGER NOT NULL CHECK (available >= 0)
    )
    """,
    """
    CREATE TABLE entries (
        n        INTEGER PRIMARY KEY,
        key      TEXT    NOT NULL UNIQUE,
        kind     TEXT    NOT NULL CHECK (kind IN ('reserve', 'charge', 'send', 'release', 'refund')),
        id       TEXT    NOT NULL UNIQUE,
        order_id TEXT,
        item     TEXT,
        amount   INTEGER NOT NULL,
        undoes   TEXT    UNIQUE,
        calls    INTEGER NOT NULL DEFAULT 1 CHECK (calls >= 1),
        at       TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
        CHECK ((undoes IS NOT NULL) = (kind IN ('release', 'refund')))
    )
    """,
    """
    INSERT INTO stock (sku, price_cents, delivered, available) VALUES
        ('widget', 1999, 1000000, 1000000),
        ('gadget', 4999, 1000000, 1000000),
        ('flaky',   500, 1000000, 1000000),
        ('jammed',  500, 1000000, 1000000)
    """,
)

COUNT_TABLES = "SELECT count(*) FROM sqlite_master"

ENTRIES = "SELECT n, key, kind, id, order_id, item, amount, undoes, calls, at FROM entries"
ALL_ENTRIES = f"{ENTRIES} ORDER BY n"
ENTRY_OF_KEY = f"{ENTRIES} WHERE key = ?"
UNDO_OF_KEY = f"{ENTRIES} WHERE undoes = ?"
COUNT_CALL = "UPDATE entries SET calls = calls + 1 WHERE key = ?"
POST = "INSERT INTO entries (key, kind, id, order_id, item, amount, undoes) VALUES (?, ?, ?, ?, ?, ?, ?)"

STOCK = "SELECT sku, price_cents, delivered, available FROM stock"
ALL_STOCK = f"{STOCK} ORDER BY sku"
STOCK_OF_SKU = f"{STOCK} WHERE sku = ?"
TAKE = "UPDATE stock SET available = available - ? WHERE sku = ?"
