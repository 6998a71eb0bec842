"""`check`: everything that can be known before serving, gathered instead of stopping at the first mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from bext_workflow.checks.children import check_children
from bext_workflow.checks.codes import finding
from bext_workflow.checks.graphs import check_graph, check_waits
from bext_workflow.checks.policies import check_policies, check_undo
from bext_workflow.config import Address, Config, ConfigProblems, load_config
from bext_workflow.errors import BextError, ConfigError
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Isolate, LeftOut, Registry, Served, load_plugins
from bext_workflow.ports.store import Store
from bext_workflow.service.transactional import transaction_faults
from bext_workflow.service.wiring import Finding, Report, Severity


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and what there was to look at. Without a usable config there is neither it nor a registry."""

    file: str
    findings: tuple[Finding, ...]
    config: Config | None = None
    registry: Registry | None = None


def examine(path: Path | None = None, isolate: Callable[[Config], Isolate] | None = None) -> Examined:
    """Loads the config and its plugins and looks at every workflow; a mistake is a finding, never an exception."""
    try:
        config = load_config(path)
    except ConfigError as error:
        return Examined(file=error.file, findings=tuple(_of_config(error)))
    host = HostInfo(data_dir=config.data_dir, store=config.store)
    registry = load_plugins(config.plugins, host, isolate=isolate and isolate(config), degraded=True)
    findings = tuple(_of_registry(config, registry))
    return Examined(file=str(config.file), findings=findings, config=config, registry=registry)


def make_report(examined: Examined, *, strict: bool, further: Iterable[Finding] = ()) -> Report:
    """The report, gravest findings first; `strict` makes errors of warnings. `further`: what the store told."""
    findings = [_sharpened(one) if strict else one for one in (*examined.findings, *further)]
    findings.sort(key=lambda one: list(Severity).index(one.severity))
    registry = examined.registry
    return Report(
        config=examined.file,
        plugins=[] if registry is None else [plugin.name for plugin in registry.plugins],
        workflows=[] if registry is None else [f"{workflow}@{version}" for workflow, version in registry.served],
        findings=findings,
    )


def store_findings(store: str, error: BextError) -> Iterator[Finding]:
    """What kept the store from being looked at."""
    if isinstance(error, ConfigError):
        yield from _of_config(error)
    else:
        yield finding("store-unusable", store, error.message, mend=error.mend)


def transaction_findings(registry: Registry, store: Store) -> Iterator[Finding]:
    """Transactional steps that could not be."""
    for where, reason, mend in transaction_faults(registry, store):
        yield finding("not-transactional", where, reason, mend=mend)


def access_findings(address: Address, *, guarded: bool) -> Iterator[Finding]:
    """`guarded`: whether there ever was an access token."""
    if not (address.loopback or guarded):
        yield finding("open-to-others", "host.listen", f"{address.host} is no address of this machine alone")


def _sharpened(one: Finding) -> Finding:
    return msgspec.structs.replace(one, severity=Severity.ERROR) if one.severity is Severity.WARNING else one


def _of_config(error: ConfigError) -> Iterator[Finding]:
    for problem in error.problems if isinstance(error, ConfigProblems) else (error,):
        where = ": ".join(part for part in (problem.file, problem.path) if part)
        yield finding("config-invalid", where or "config", problem.reason, mend=problem.mend)


def _of_registry(config: Config, registry: Registry) -> Iterator[Finding]:
    if not config.plugins:
        yield finding("no-plugins", str(config.file), "the config names no plugin")
    for one in (*registry.left_out, *registry.unscheduled):
        yield from _of_left_out(one)
    for plugin in registry.plugins:
        if not plugin.definitions and plugin.open_store is None:
            yield finding("serves-nothing", f"plugin {plugin.name}", "it brings neither a workflow nor a store")
    stated = {
        (entry.id, entry.version): [step.name for step in entry.steps if "compensate_on_failure" in step.stated]
        for spec in config.plugins
        for entry in spec.workflows
    }
    for (workflow, version), served in registry.served.items():
        yield from _of_workflow(served, f"{workflow}@{version}", stated.get((workflow, version), []))
    yield from check_children(registry)


def _of_left_out(one: LeftOut) -> Iterator[Finding]:
    error: BextError = one.error
    if isinstance(error, ConfigError):
        yield from _of_config(error)
    else:
        yield finding("plugin-invalid", f"plugin {one.name}", error.message, mend=error.mend)


def _of_workflow(served: Served, where: str, stated: list[str]) -> Iterator[Finding]:
    yield from check_graph(served.definition, where)
    yield from check_waits(served.definition, where)
    yield from check_policies(served.definition, where)
    yield from check_undo(served.definition, where, has_undo=served.plugin.compensate_step is not None, stated=stated)
