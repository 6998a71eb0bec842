"""`python -m bext_workflow_pg LEDGER`: what was reserved, charged, sent and undone, and whether it adds up."""

from __future__ import annotations

import argparse
import asyncio
import sys

from bext_workflow.errors import BextError
from bext_workflow.model.json import dumps
from bext_workflow_pg.books import Books
from bext_workflow_pg.errors import NotALedger, Transient, Unreachable
from bext_workflow_pg.opening import open_ledger_for_reading
from bext_workflow_pg.report import as_json, as_table

BALANCED, UNBALANCED, UNREADABLE = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Exits as `diff` does: 0 it balances, 1 it does not, 2 trouble."""
    options = _parser().parse_args(arguments)
    try:
        books = asyncio.run(_books(options.ledger))
    except (BextError, NotALedger, Transient, Unreachable) as error:
        sys.stderr.write(f"error: {error}\n")
        return UNREADABLE
    as_text = options.output == "table" or (options.output == "auto" and sys.stdout.isatty())
    sys.stdout.write(as_table(books) if as_text else dumps(as_json(books)).decode() + "\n")
    return UNBALANCED if books.faults() else BALANCED


async def _books(location: str) -> Books:
    ledger = await open_ledger_for_reading(location)
    try:
        return await ledger.books()
    finally:
        await ledger.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bext_workflow_pg", description="Shows the balance of a ledger.")
    parser.add_argument("ledger", help="the file, such as ledger.db, or the URL of the database")
    parser.add_argument(
        "-o",
        "--output",
        choices=("auto", "table", "json"),
        default="auto",
        help="auto: a table on a terminal, else JSON",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
