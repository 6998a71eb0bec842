"""A schema, or a database, of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from os import getpid
from urllib.parse import urlencode, urlsplit, urlunsplit

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


@asynccontextmanager
async def fresh_database(server: str) -> AsyncIterator[str]:
    """The name of an empty database, which is dropped in the end, whoever is still in it."""
    name = f"test_{getpid()}_{next(_numbers)}"
    await run_sql(server, f"CREATE DATABASE {name}")
    try:
        yield name
    finally:
        await run_sql(server, f"DROP DATABASE {name} WITH (FORCE)")


def at(url: str, *, port: int | None = None, database: str | None = None, user: str | None = None) -> str:
    """The same URL, on another port of this machine, of another database or user."""
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    place = place if port is None else f"127.0.0.1:{port}"
    path = parts.path if database is None else f"/{database}"
    return urlunsplit(parts._replace(netloc=f"{user or login}@{place}", path=path))


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
