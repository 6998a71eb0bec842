"""What is proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bext_workflow.errors import UsageError
from bext_workflow.model.json import JsonObject
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.overlay import WorkflowEntry
from bext_workflow.plugin.registry import Plugin, Registry, Served, load_given
from bext_workflow.plugin.rehearsal import Rehearsal


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it is, or as a rehearsal makes it, and what the config says of its workflows.

    `without_undo`: the undo of that step is left out, as if the plugin had none.
    """

    plugin: object
    workflow: str
    version: int | None = None
    rehearse: Callable[[str], Rehearsal]
    config: JsonObject | None = None
    overlays: tuple[WorkflowEntry, ...] = ()
    folder: Path
    without_undo: str | None = None

    @contextmanager
    def rehearsal(self) -> Iterator[Rehearsal]:
        """A new one, for one run."""
        made = self.rehearse(self.workflow)
        try:
            yield made
        finally:
            if made.close is not None:
                made.close()

    def load(self, rehearsal: Rehearsal) -> Plugin:
        """The plugin, anew."""
        given = self.plugin if rehearsal.plugin is None else rehearsal.plugin()
        info = HostInfo(data_dir=self.folder, store="sqlite::memory:")
        return load_given(given, info, config=self.config, workflows=self.overlays)

    def served(self, registry: Registry) -> Served:
        """Raises `UsageError` for a workflow that the plugin does not serve."""
        highest = registry.highest(self.workflow)
        served = highest if self.version is None else registry.served.get((self.workflow, self.version))
        if served is None:
            known = ", ".join(f"{id_}@{version}" for id_, version in registry.served)
            wanted = repr(self.workflow) if self.version is None else f"{self.workflow!r} in version {self.version}"
            raise UsageError(f"the plugin serves no workflow {wanted}", mend=f"there are: {known}")
        if self.without_undo not in (None, *served.definition.by_name):
            known = ", ".join(served.definition.by_name)
            raise UsageError(f"{self.workflow} has no step {self.without_undo!r}", mend=f"there are: {known}")
        return served
