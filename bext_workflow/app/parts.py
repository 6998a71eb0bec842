"""What commands and `serve` are made of: config, plugins, store, host."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import msgspec

from bext_workflow.config import Config, load_config, shown_store
from bext_workflow.errors import ConfigError
from bext_workflow.host.clock import SystemChance
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.host.isolation.loading import load_apart
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Isolate, Registry, load_plugins
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.retention import RetentionDays
from bext_workflow.ports.store import Store
from bext_workflow.ports.telemetry import Telemetry
from bext_workflow.service.access import TokenAccess, TokenService
from bext_workflow.service.approvals import ApprovalService
from bext_workflow.service.audit import AuditService
from bext_workflow.service.bulk import BulkService
from bext_workflow.service.caller import Who
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine
from bext_workflow.service.hosts import HostService
from bext_workflow.service.schedules import ScheduleService
from bext_workflow.service.service import Service
from bext_workflow.service.webhooks import WebhookService
from bext_workflow.stores import SCHEME, from_url


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A config with its plugins loaded and its store not opened yet."""

    config: Config
    registry: Registry
    store: Store
    clock: Clock
    chance: Chance

    def host(self, telemetry: Telemetry, settings: HostSettings, *, only: str | None = None) -> Host:
        """A host over these parts."""
        return Host(
            store=self.store,
            registry=self.registry,
            settings=settings,
            clock=self.clock,
            chance=self.chance,
            telemetry=telemetry,
            only=only,
        )

    def service(self, engine: Engine, *, who: Who) -> Service:
        """The service over these parts, for those whom `who` tells."""
        return Service(
            store=self.store,
            engine=engine,
            catalog=self.catalog(),
            clock=self.clock,
            chance=self.chance,
            context_bytes=self.config.host.limits.context_bytes,
            who=who,
        )

    def schedules(self, service: Service, *, who: Who) -> ScheduleService:
        """The schedules over these parts, for those whom `who` tells."""
        return ScheduleService(registry=self.registry, store=self.store, service=service, clock=self.clock, who=who)

    def approvals(self, service: Service, *, who: Who) -> ApprovalService:
        """The approvals over these parts, for those whom `who` tells."""
        return ApprovalService(store=self.store, service=service, clock=self.clock, who=who)

    def tokens(self, *, who: Who) -> TokenService:
        """The access tokens over these parts, for those whom `who` tells."""
        return TokenService(store=self.store, clock=self.clock, chance=self.chance, who=who)

    def audit(self, service: Service) -> AuditService:
        """The audit over these parts."""
        return AuditService(store=self.store, service=service)

    def webhooks(self, *, who: Who) -> WebhookService:
        """The webhooks over these parts, for those whom `who` tells."""
        return WebhookService(store=self.store, clock=self.clock, chance=self.chance, who=who)

    def bulk(self, service: Service, *, who: Who) -> BulkService:
        """Acts on many runs, for those whom `who` tells."""
        return BulkService(service=service, who=who)

    def hosts(self) -> HostService:
        """Who drives these parts."""
        return HostService(store=self.store)

    def access(self) -> TokenAccess:
        """Who it is that asks a host over these parts."""
        limit = self.config.host.limits.requests_per_s
        return TokenAccess(store=self.store, clock=self.clock, requests_per_s=limit)

    def catalog(self) -> Catalog:
        return Catalog(self.registry)

    def settings(self) -> HostSettings:
        """The numbers of the config."""
        host = self.config.host
        return HostSettings(
            concurrency=host.concurrency,
            drain_timeout_ms=host.drain_timeout_ms,
            poll_ms=host.poll_ms or 0,
            lease_ms=host.lease_ms,
            context_bytes=host.limits.context_bytes,
            threads=host.limits.threads,
            leaked_threads=host.limits.leaked_threads,
            webhook_networks=host.webhooks.allow,
            retention=self.retention(),
        )

    def retention(self) -> RetentionDays:
        """How long runs and their start keys are kept."""
        days = self.config.host.retention
        return RetentionDays(
            completed=days.completed_days,
            compensated=days.compensated_days,
            failed=days.failed_days,
            cancelled=days.cancelled_days,
            start_keys=self.config.host.start_keys_days,
        )


def load(path: Path | None, *, degraded: bool, clock: Clock) -> Parts:
    """Reads the config and loads its plugins. Raises every `BextError` that stands in the way."""
    config = load_config(path)
    info = HostInfo(data_dir=config.data_dir, store=config.store)
    with redirect_stdout(sys.stderr):  # standard output is for a command's own data, whatever plugins print
        registry = load_plugins(config.plugins, info, isolate=isolate(config), degraded=degraded)
    return assemble(config, registry, clock)


def isolate(config: Config) -> Isolate:
    """How plugins of this config are loaded that run in processes of their own."""
    limits = config.host.limits
    return partial(load_apart, processes=limits.processes, context_bytes=limits.context_bytes)


def assemble(config: Config, registry: Registry, clock: Clock) -> Parts:
    """The parts of a config whose plugins are loaded. Raises `ConfigError` for a store that nothing opens."""
    return Parts(
        config=config,
        registry=registry,
        store=open_store(config.store, config, registry),
        clock=clock,
        chance=SystemChance(),
    )


def os_user() -> str:
    """Who acts, for direct commands."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def open_store(url: str, config: Config, registry: Registry) -> Store:
    """The store of a URL, not opened yet. Raises `ConfigError` if nothing opens it."""
    if url.startswith(f"{SCHEME}:"):
        return from_url(url, config.folder)
    for plugin in registry.plugins:
        if plugin.open_store is not None:
            store = plugin.open_store(url)
            if isinstance(store, Store):
                return store
    raise ConfigError(
        f"no plugin opens the store {shown_store(url)!r}",
        file=str(config.file),
        path="host.store",
        mend='use "sqlite:bext.db", or add the plugin that serves this scheme, inline',
    )
