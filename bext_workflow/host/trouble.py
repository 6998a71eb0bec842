"""What stands between the host and its store, as those who use the store find it."""

from __future__ import annotations

import asyncio

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.telemetry import Telemetry


class Trouble:
    """Said once when it begins and once when it is over, whoever meets it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._met: dict[str, str] = {}
        self._over = asyncio.Event()
        self._over.set()

    @property
    def reasons(self) -> list[str]:
        """Why the store cannot be used now; none if it can."""
        return list(dict.fromkeys(self._met.values()))

    def met(self, by: str, error: StoreUnavailable) -> None:
        """The store did not answer `by`."""
        if not self._met:
            self._telemetry.log(names.STORE_UNAVAILABLE, error=error.message)
            self._over.clear()
        self._met[by] = error.message

    def over(self, by: str) -> None:
        """The store answered `by`."""
        if self._met.pop(by, None) is not None and not self._met:
            self._telemetry.log(names.STORE_BACK)
            self._over.set()

    async def past(self) -> None:
        """Waits until there is none."""
        await self._over.wait()
