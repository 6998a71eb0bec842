"""The books of a ledger, written for a person and for a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bext_workflow.model.json import JsonObject
from bext_workflow_pg.books import Books, Entry, Kind

HEAD = ("KEY", "KIND", "WHAT", "STATUS", "CALLS")


def as_json(books: Books) -> JsonObject:
    """Every entry with its status, the stock, the totals, and why it does not balance."""
    return {
        "balanced": not books.faults(),
        "faults": list(books.faults()),
        "totals": books.totals(),
        "entries": [{**msgspec.to_builtins(entry), "status": books.status(entry)} for entry in books.entries],
        "stock": [msgspec.to_builtins(stock) for stock in books.stock],
    }


def as_table(books: Books) -> str:
    """One line an entry, in the order in which they were made, and the balance."""
    rows = [(e.key, e.kind, _what(e), books.status(e), str(e.calls)) for e in books.entries]
    return "".join(f"{line}\n" for line in (*_aligned([HEAD, *rows]), "", *_balance(books)))


def _balance(books: Books) -> Iterable[str]:
    totals = ", ".join(f"{count} {status}" for status, count in books.totals().items())
    faults = books.faults()
    yield f"{'does not balance' if faults else 'balances'}: {totals}"
    yield from (f"  {_printable(fault)}" for fault in faults)


def _what(entry: Entry) -> str:
    if entry.item is None:
        return "-"
    match entry.kind:
        case Kind.RESERVE | Kind.RELEASE:
            return f"{entry.amount} × {entry.item}"
        case Kind.CHARGE | Kind.REFUND:
            return f"{entry.amount / 100:.2f} by {entry.item}"
        case Kind.SEND:
            return f"to {entry.item}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    cells = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _printable(text: str) -> str:
    """Names come from callers: a control character must not reach the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
