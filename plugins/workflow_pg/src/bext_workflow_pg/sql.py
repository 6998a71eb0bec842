"""All SQL of the ledger. What both databases take stands once, with the parameters of SQLite."""

from __future__ import annotations

APPLICATION_ID = 0x62786C67
"""Marks the file as a ledger, so that another database is never taken for one."""
VERSION = 1

DELIVERY = """
    INSERT INTO checkout_stock (sku, price_cents, delivered, available) VALUES
        ('widget', 1999, 1000000, 1000000),
        ('gadget', 4999, 1000000, 1000000),
        ('flaky',   500, 1000000, 1000000),
        ('jammed',  500, 1000000, 1000000)
"""

# `checkout_entries` is append-only but for `calls`. Its two UNIQUE keys are the promise of the ledger: nothing is done
# twice under one key, and nothing is undone twice.
SCHEMA = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
    """
    CREATE TABLE checkout_stock (
        sku         TEXT    PRIMARY KEY,
        price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
        delivered   INTEGER NOT NULL CHECK (delivered >= 0),
        available   INTEGER NOT NULL CHECK (available >= 0)
    )
    """,
    """
    CREATE TABLE checkout_entries (
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
    DELIVERY,
)

POSTGRES_SCHEMA = f"""
    CREATE TABLE checkout_stock (
        sku         text   COLLATE "C" PRIMARY KEY,
        price_cents bigint NOT NULL CHECK (price_cents >= 0),
        delivered   bigint NOT NULL CHECK (delivered >= 0),
        available   bigint NOT NULL CHECK (available >= 0)
    );
    CREATE TABLE checkout_entries (
        n        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key      text    COLLATE "C" NOT NULL UNIQUE,
        kind     text    NOT NULL CHECK (kind IN ('reserve', 'charge', 'send', 'release', 'refund')),
        id       text    COLLATE "C" NOT NULL UNIQUE,
        order_id text,
        item     text,
        amount   bigint  NOT NULL,
        undoes   text    COLLATE "C" UNIQUE,
        calls    integer NOT NULL DEFAULT 1 CHECK (calls >= 1),
        at       text    NOT NULL
            DEFAULT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        CHECK ((undoes IS NOT NULL) = (kind IN ('release', 'refund')))
    );
    {DELIVERY};
"""

COUNT_TABLES = "SELECT count(*) FROM sqlite_master"

TABLES = "checkout_entries"
IS_MADE = f"SELECT to_regclass('{TABLES}') IS NOT NULL"

ALONE = """
    SELECT pg_advisory_xact_lock(number) FROM (
        SELECT DISTINCT hashtextextended(key, 0) AS number FROM unnest($1::text[]) AS key ORDER BY number
    ) AS numbers
"""
"""Waits for whoever holds the lock of one of the keys; all take several in one order."""

ENTRIES = "SELECT n, key, kind, id, order_id, item, amount, undoes, calls, at FROM checkout_entries"
ALL_ENTRIES = f"{ENTRIES} ORDER BY n"
ENTRY_OF_KEY = f"{ENTRIES} WHERE key = ?1"
UNDO_OF_KEY = f"{ENTRIES} WHERE undoes = ?1"
COUNT_CALL = "UPDATE checkout_entries SET calls = calls + 1 WHERE key = ?1"
POST = """
    INSERT INTO checkout_entries (key, kind, id, order_id, item, amount, undoes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
"""

STOCK = "SELECT sku, price_cents, delivered, available FROM checkout_stock"
ALL_STOCK = f"{STOCK} ORDER BY sku"
STOCK_OF_SKU = f"{STOCK} WHERE sku = ?1"
TAKE = "UPDATE checkout_stock SET available = available - ?1 WHERE sku = ?2 AND available >= ?1 RETURNING sku"


def for_postgres(statement: str) -> str:
    """The same statement with the parameters of PostgreSQL."""
    return statement.replace("?", "$")
