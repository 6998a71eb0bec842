"""The way from a host to its store, on which things get lost, and the deaths of the host."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NoReturn, ParamSpec, TypeVar

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports.store import LeaseLost, Member, Result, Store

P = ParamSpec("P")
T = TypeVar("T")

_WRITING = ("claim", "post", "save_definition")
_LOST = StoreUnavailable("simulated: the way to the store is broken")

Odds = tuple[float, float]
"""Of a call that gets lost, and of one whose host dies."""

CALM: Odds = (0.0, 0.0)
STORM: Odds = (0.04, 0.03)


class Trouble:
    """What may happen to one host. `deaths` are the world's: there is a last one."""

    def __init__(self, chance: Random, odds: Odds, deaths: list[str]) -> None:
        self._chance = chance
        self._lost, self._dies = odds
        self._deaths = deaths
        self.died = asyncio.Event()

    def over(self, store: Store) -> Store:
        """The same store, at the end of a bad way. Once the host is dead nothing of it arrives."""
        for name, method in inspect.getmembers(Store, inspect.iscoroutinefunction):
            del method
            found = getattr(store, name)
            if name == "write":
                setattr(store, name, self._writing(found))
            elif name not in ("open", "close", "schema", "listen"):
                setattr(store, name, self._troubled(found, answers_get_lost=name in _WRITING))
        return store

    async def passing(self, where: str) -> None:
        """A place at which the host may die; the dead do not pass it."""
        await asyncio.sleep(0)
        self._maybe_die(where)
        if self.died.is_set():
            await _never()

    def _maybe_die(self, where: str) -> None:
        if self._deaths and self._chance.random() < self._dies:
            self._deaths.pop()
            self.died.set()
            self.where = where

    def _maybe_lose(self) -> None:
        if self._chance.random() < self._lost:
            raise StoreUnavailable(_LOST.message)

    def _troubled(self, method: Callable[P, Awaitable[T]], *, answers_get_lost: bool) -> Callable[P, Awaitable[T]]:
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            self._refuse_the_dead()
            self._maybe_lose()
            answer = await method(*args, **kwargs)
            if answers_get_lost:
                self._maybe_die("after an act")
                self._maybe_lose()
            self._refuse_the_dead()
            return answer

        return call

    def _writing(
        self, write: Callable[[Sequence[Member]], Awaitable[Sequence[Result]]]
    ) -> Callable[[Sequence[Member]], Awaitable[Sequence[Result]]]:
        """The committer of a dead host is told that nothing of it counts, so that it comes to its end."""

        async def call(batch: Sequence[Member]) -> Sequence[Result]:
            self._maybe_die("before a commit")
            if self.died.is_set():
                return [LeaseLost() for _ in batch]
            self._maybe_lose()
            results = await write(batch)
            self._maybe_die("after a commit")
            self._maybe_lose()
            return [LeaseLost() for _ in batch] if self.died.is_set() else results

        return call

    def _refuse_the_dead(self) -> None:
        if self.died.is_set():
            raise StoreUnavailable(_LOST.message)


async def _never() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError
