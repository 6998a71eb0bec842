"""`doctor`: looks at everything that a host rests on, one thing after the other, and goes on where one is broken."""

from __future__ import annotations

import platform
import shutil
import sys
from contextlib import redirect_stdout
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
from anyio import to_thread

from bext_workflow.app.parts import Parts, assemble, isolate
from bext_workflow.checks import health
from bext_workflow.config import Config, effective, load_config
from bext_workflow.errors import BextError
from bext_workflow.model.json import JsonObject
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Registry, load_plugins
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.hosting import Survey
from bext_workflow.service.health import Checked, Diagnosis, Health
from bext_workflow.service.hosts import HostService


async def diagnose(path: Path | None, clock: Clock) -> Diagnosis:
    """Never raises for what is wrong: that is what it is asked for."""
    doctor = _Doctor(clock)
    try:
        await doctor.look(path)
    except BextError as error:
        doctor.checked.append(health.broken(doctor.at, error))
    return Diagnosis(checked=doctor.checked, facts=doctor.facts)


class _Doctor:
    """`at`: what is being looked at. What rests on a thing that is broken is not looked at."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at = "versions"
        self.checked: list[Checked] = []
        self.facts: JsonObject = {}

    async def look(self, path: Path | None) -> None:
        self._versions()
        self.at = "config"
        config = load_config(path)
        self._say(Checked(what="config", health=Health.OK, said=str(config.file)), effective(config))
        self.at = "plugins"
        registry = self._plugins(config)
        self.at = "store"
        parts = assemble(config, registry, self._clock)
        self.at = "schema"
        schema = await parts.store.schema()
        self._say(health.schema(schema), msgspec.to_builtins(schema))
        if schema.found != schema.spoken:
            return
        self.at = "store"
        await parts.store.open(migrate=False)
        try:
            await parts.store.ping()
            await self._store(parts)
            await self._work(parts)
        finally:
            await parts.store.close()

    def _versions(self) -> None:
        loop = "uvloop" if find_spec("uvloop") is not None else "the event loop of Python"
        said = f"bext-workflow {version('bext-workflow')}, Python {platform.python_version()}, {loop}"
        facts = {
            "platform": platform.platform(),
            "packages": sorted(f"{one.name}=={one.version}" for one in distributions()),
        }
        self._say(Checked(what="versions", health=Health.OK, said=said), facts)

    def _plugins(self, config: Config) -> Registry:
        info = HostInfo(data_dir=config.data_dir, store=config.store)
        with redirect_stdout(sys.stderr):  # as in `parts.load`
            registry = load_plugins(config.plugins, info, isolate=isolate(config), degraded=True)
        served = [f"{workflow}@{number} {one.definition.digest}" for (workflow, number), one in registry.served.items()]
        self._say(health.plugins(registry), served)
        return registry

    async def _store(self, parts: Parts) -> None:
        asked = self._clock.now()
        survey = await parts.store.survey()
        answered = self._clock.now()
        self._say(health.store(survey, parts.config.shown_store), {"engine": survey.engine, "bytes": survey.bytes})
        self._say(health.clock(survey.now, asked, answered))
        if parts.store.profile.shared:
            self._say(health.pooler(survey))
        await self._disk(parts.config, survey)

    async def _disk(self, config: Config, survey: Survey) -> None:
        """Of the store's files, or, where they are elsewhere, of those that plugins may have."""
        folder = survey.folder or config.data_dir
        usage = await to_thread.run_sync(shutil.disk_usage, folder)
        self._say(health.disk(usage.free, usage.total, str(folder)))

    async def _work(self, parts: Parts) -> None:
        hosts = await HostService(store=parts.store).hosts()
        stats = await HostService(store=parts.store).stats()
        alive = [f"{one.host_id} (pid {one.pid} on {one.hostname}) since {one.started_at}" for one in hosts]
        self._say(health.hosts(alive, sum(one.runs for one in stats.live)), msgspec.to_builtins(stats))
        self._say(health.incidents(sum(one.open for one in stats.incidents)))

    def _say(self, checked: Checked, facts: object = None) -> None:
        self.checked.append(checked)
        if facts is not None:
            self.facts[checked.what] = facts
