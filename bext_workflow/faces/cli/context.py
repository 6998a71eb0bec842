"""One call of the command line: its settings, and the ways from them to a service."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from bext_workflow.faces.cli.options import Settings
from bext_workflow.faces.cli.output import Output

if TYPE_CHECKING:
    from bext_workflow.service.wiring import Reached, Target, Wiring

T = TypeVar("T")


class Session:
    """What a command is given. The wiring is made when it is first needed, so that help needs none."""

    def __init__(self, wiring_factory: Callable[[], Wiring]) -> None:
        self._wiring_factory = wiring_factory
        self.settings = Settings()

    @cached_property
    def wiring(self) -> Wiring:
        return self._wiring_factory()

    @cached_property
    def output(self) -> Output:
        return Output(self.settings.output, quiet=self.settings.quiet)

    def target(self) -> Target:
        """Where the command acts."""
        from bext_workflow.service.wiring import Target

        return Target(config=self.settings.config, url=self.settings.url, token=self.settings.token)

    def local_target(self, what: str) -> Target:
        """Where a command acts that has no meaning for a host elsewhere. Raises `UsageError` if there is a URL."""
        if self.settings.url is not None:
            from bext_workflow.errors import UsageError

            raise UsageError(f"{what} works on this machine, not on a URL", mend="leave --url (BEXT_URL) out")
        return self.target()

    def ask(self, question: Callable[[Reached], Awaitable[T]]) -> T:
        """Opens the service, asks it, closes it."""

        async def reach_and_ask() -> T:
            async with self.wiring.reach(self.target()) as reached:
                return await question(reached)

        return self.run(reach_and_ask)

    def run(self, act: Callable[[], Awaitable[T]], *, fast: bool = False) -> T:
        """Runs a coroutine function on an event loop of its own; `fast`: on uvloop, where it is installed."""
        import anyio

        return anyio.run(act, backend_options={"use_uvloop": fast and find_spec("uvloop") is not None})

    def command(self, *words: str) -> str:
        """The line to type for another command that acts on the same place."""
        place = []
        if self.settings.config is not None:
            place += ["-c", str(self.settings.config)]
        if self.settings.url is not None:
            place += ["--url", self.settings.url]
        return to_type("bext-host", *place, *words)


def to_type(*words: str) -> str:
    """The words as a shell takes them; who has typed `uv run` may have no program of this environment on the path."""
    return shlex.join([*(["uv", "run"] if "UV_RUN_RECURSION_DEPTH" in os.environ else []), *words])
