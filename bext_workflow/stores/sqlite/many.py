"""Many rows by few statements.

`executemany` gives the interpreter's lock away and waits for it again at each row, so beside a busy event loop it is at
the loop's mercy. A statement with many rows does it once.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain

_ROW = re.compile(r"(?<=VALUES )\([?, ]+\)")
_LARGEST = 128
"""Statements have 128, 64, 32 … 1 rows: few enough to stay prepared, whatever the number of rows."""


def execute_rows(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
    """Executes a statement with one `VALUES (?, …)` for all rows; returns how many rows it changed."""
    changed = start = 0
    size = _LARGEST
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        values = tuple(chain.from_iterable(rows[start : start + size]))
        changed += connection.execute(_widened(statement, size), values).rowcount
        start += size
    return changed


@cache
def _widened(statement: str, size: int) -> str:
    return _ROW.sub(lambda row: ", ".join([row[0]] * size), statement)
