"""A schema of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from os import getpid
from urllib.parse import urlencode

import asyncpg

_numbers = count(1)


@asynccontextmanager
async def fresh_schema(server: str) -> AsyncIterator[str]:
    """The URL of an empty schema, which is dropped in the end."""
    name = f"test_{getpid()}_{next(_numbers)}"
    await run_sql(server, f"CREATE SCHEMA {name}")
    try:
        yield with_options(server, search_path=name)
    finally:
        await run_sql(server, f"SET client_min_messages = error; DROP SCHEMA {name} CASCADE")


async def run_sql(url: str, script: str) -> None:
    """Executes statements, as an administrator may."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def ask(url: str, query: str) -> object:
    """The one value that the query answers."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def with_options(url: str, **options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(options)}"
