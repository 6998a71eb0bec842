"""The proof of a workflow as the config serves it: with its overlays, and with the rehearsal of its plugin."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from bext_workflow.config import load_config
from bext_workflow.errors import NotFound
from bext_workflow.plugin.discovery import load, locate
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import PluginSpec, load_given
from bext_workflow.service.proof import Proof, ProofOptions
from bext_workflow.service.wiring import Target
from bext_workflow.testing.prover.explore import explore
from bext_workflow.testing.prover.proving import rehearsing
from bext_workflow.testing.prover.subject import Subject


async def prove_configured(target: Target, workflow: str, version: int | None, options: ProofOptions) -> Proof:
    """Raises every `BextError` that stands in the way; `NotFound` for a workflow that no plugin of the config has."""
    config = load_config(target.config)
    with TemporaryDirectory(prefix="bext-prove-") as folder, redirect_stdout(sys.stderr):
        known: list[str] = []
        for spec in config.plugins:
            subject = _subject(spec, Path(folder), workflow, version, known)
            if subject is not None:
                return await explore(subject, options)
    raise NotFound(
        f"no plugin of the config serves a workflow {workflow!r}", mend=f"there are: {', '.join(known) or 'none'}"
    )


def _subject(spec: PluginSpec, folder: Path, workflow: str, version: int | None, known: list[str]) -> Subject | None:
    """The plugin's workflow, if it is the plugin's; `known` learns which ones are."""
    origin, point = locate(spec.name, spec.source)
    given = load(origin, point)
    info = HostInfo(data_dir=folder, store="sqlite::memory:")
    plugin = load_given(given, info, config=spec.config, workflows=spec.workflows, origin=origin)
    known += sorted({own.id for own in plugin.definitions})
    if workflow not in known:
        return None
    return Subject(
        plugin=given,
        workflow=workflow,
        version=version,
        rehearse=rehearsing(plugin.name, plugin.rehearse),
        config=spec.config,
        overlays=spec.workflows,
        folder=folder,
    )
