"""`prove`, for tests and for the command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bext_workflow.errors import UsageError
from bext_workflow.model.json import JsonObject
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import load_given
from bext_workflow.plugin.rehearsal import Rehearsal
from bext_workflow.service.proof import Proof, ProofOptions
from bext_workflow.testing.prover.explore import explore
from bext_workflow.testing.prover.subject import Subject


def prove(
    plugin: object = None,
    workflow: str | None = None,
    *,
    rehearse: Callable[[str], Rehearsal] | None = None,
    config: JsonObject | None = None,
    budget: int = 0,
    replay: str | None = None,
    without_undo: str | None = None,
) -> Proof:
    """Explores the workflow (None: the plugin's only one) with every fault; see `docs/testing.md`.

    With `without_undo` the undo of that step is left out: a proof that still holds does not rest on it.

    `rehearse` makes a new `Rehearsal` for each run; None: the plugin's own hook. It may make the plugin, too. Raises
    `UsageError` for what cannot be played, `PluginError` for what the host would refuse.
    """
    _refuse_running_loop()
    with TemporaryDirectory(prefix="bext-prove-") as folder:
        info = HostInfo(data_dir=Path(folder), store="sqlite::memory:")
        made = None if rehearse is None else rehearse(workflow or "").plugin
        loaded = load_given(plugin if made is None else made(), info, config=config)
        subject = Subject(
            plugin=plugin,
            workflow=workflow or _only(sorted({own.id for own in loaded.definitions})),
            rehearse=rehearse or rehearsing(loaded.name, loaded.rehearse),
            config=config,
            folder=Path(folder),
            without_undo=without_undo,
        )
        return anyio.run(explore, subject, ProofOptions(budget=budget, replay=replay))


def rehearsing(name: str, hook: Callable[[str], object] | None) -> Callable[[str], Rehearsal]:
    """The plugin's hook. Raises `UsageError` if it has none."""
    if hook is None:
        raise UsageError(
            f"plugin {name!r} has no hook rehearse, so that there is nothing to prove it with",
            mend="add it (docs/testing.md), or give `prove` a function in its place",
        )

    def rehearse(workflow: str) -> Rehearsal:
        given = hook(workflow)
        if not isinstance(given, Rehearsal):
            raise UsageError(
                f"plugin {name!r}: rehearse({workflow!r}) gave a {type(given).__name__}",
                mend="return a Rehearsal (from bext_workflow)",
            )
        return given

    return rehearse


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("prove has an event loop of its own", mend="call it from a plain function, not from a coroutine")


def _only(workflows: list[str]) -> str:
    if len(workflows) == 1:
        return workflows[0]
    raise UsageError(f"the plugin serves {', '.join(workflows) or 'no workflow'}", mend="say which one")
