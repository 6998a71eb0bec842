"""What a transactional step is given: a connection inside the transaction of its checkpoint (semantics §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from bext_workflow.model.json import Json


class Database(Protocol):
    """The calls that most steps need of a connection. It is the driver's own, asyncpg's for PostgreSQL.

    Its transaction is the host's to end. `transaction()` makes a savepoint: what fails in such a block can be caught
    outside of it, and the step goes on.
    """

    async def execute(self, query: str, *args: Json) -> str:
        """Executes a statement; returns its status."""
        ...

    async def executemany(self, command: str, args: Iterable[Sequence[Json]]) -> None:
        """Executes a statement for each row of values."""
        ...

    async def fetch(self, query: str, *args: Json) -> Sequence[Json]:
        """The rows of a query."""
        ...

    async def fetchrow(self, query: str, *args: Json) -> Json:
        """The first row, or None."""
        ...

    async def fetchval(self, query: str, *args: Json) -> Json:
        """The first value of the first row, or None."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Json]:
        """A block of its own within the transaction."""
        ...


Transact: TypeAlias = Callable[[], AbstractAsyncContextManager[Database]]
"""Opens the block; begins the transaction when it is first entered."""
