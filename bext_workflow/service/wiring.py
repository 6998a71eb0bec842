"""What the composition root hands to the command line: how to reach a service, and what needs a whole process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from bext_workflow.model.json import JsonObject
from bext_workflow.model.view import RunView
from bext_workflow.service.administration import Audit, Hosts, Tokens, Webhooks
from bext_workflow.service.health import Diagnosis
from bext_workflow.service.proof import Proof, ProofOptions
from bext_workflow.service.protocols import Approvals, Operations, Runs, Schedules, Workflows


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command acts: on a host by `url`, else straight on the store that `config` names (None: looked for).

    `token`: what a host at `url` knows the caller by.
    """

    config: Path | None = None
    url: str | None = None
    token: str | None = None


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `serve`'s options override; None leaves the config's word."""

    listen: str | None = None
    concurrency: int | None = None
    drain_timeout_ms: int | None = None
    migrate: bool = False
    degraded: bool = False
    ready_file: Path | None = None
    log_format: str = "auto"
    verbosity: int = 0


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `check` has to say. `code` is stable and documented; `where` names the thing."""

    code: str
    severity: Severity
    where: str
    message: str
    mend: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that `check` found, and what it looked at."""

    config: str
    plugins: list[str]
    workflows: list[str]
    findings: list[Finding]


class Change(StrEnum):
    """What a config changes of a workflow version."""

    NONE = "none"
    NEW = "new"
    POLICY = "policy"
    GRAPH = "graph"
    UNSERVED = "unserved"


class VersionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a config means for a workflow version with so many live runs; `lines` say in words what differs."""

    workflow: str
    version: int
    live: int
    change: Change
    lines: list[str] = []


class StoreState(StrEnum):
    """A store's schema, against the one that this program speaks."""

    READY = "ready"
    EMPTY = "empty"
    OLDER = "older"
    NEWER = "newer"


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `db status` says. `schema` is the number of the store's schema (0: none), `spoken` that of this program."""

    store: str
    schema: int
    spoken: int
    state: StoreState


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What `db copy` has done: so many rows of each table went over from `store`."""

    store: str
    to: str
    rows: dict[str, int]


class StorePruned(msgspec.Struct, frozen=True, kw_only=True):
    """What `db prune` has removed, or, with `dry_run`, would remove: runs by how they ended, and start keys."""

    store: str
    dry_run: bool
    runs: dict[str, int]
    start_keys: int


class StoreBackup(msgspec.Struct, frozen=True, kw_only=True):
    """What `db backup` has written."""

    store: str
    to: str
    bytes: int


class Reached(Protocol):
    """A service that a command may call. `url` is None when it acts straight on the store."""

    runs: Runs
    operations: Operations
    workflows: Workflows
    schedules: Schedules
    approvals: Approvals
    tokens: Tokens
    audit: Audit
    webhooks: Webhooks
    hosts: Hosts
    url: str | None

    async def drive(self, run_id: str, *, wait_ms: int | None) -> RunView:
        """Waits until the run has ended, is SUSPENDED or WAITING, or `wait_ms` is over (None: no bound).

        Straight on a store that no host drives, this process takes the driver's seat and drives that run meanwhile.
        """


Prover: TypeAlias = Callable[[Target, str, int | None, ProofOptions], Awaitable[Proof]]
"""Proves a workflow, of some version or the highest, as the config of the target serves it."""


class Wiring(Protocol):
    """The composition root, as the command line sees it."""

    def reach(self, target: Target) -> AbstractAsyncContextManager[Reached]:
        """Opens a service for one command. Raises every `BextError` that stands in the way."""

    async def check(self, target: Target, *, strict: bool) -> Report:
        """All that can be known before serving. Config errors are findings too."""

    async def plan(self, target: Target) -> Sequence[VersionPlan]:
        """What the config means for the live runs. Raises what keeps the config, a plugin or the store from use."""

    async def prove(self, target: Target, workflow: str, version: int | None, options: ProofOptions) -> Proof:
        """The proof of a workflow (`version` of None: the highest). Raises what keeps it from being played."""

    def config(self, target: Target) -> JsonObject:
        """The effective config, with defaults and without secrets."""

    async def store_status(self, target: Target) -> StoreStatus:
        """Looks at the store's schema, and changes nothing. Raises `StoreUnavailable`."""

    async def copy_store(self, target: Target, to: str) -> StoreCopy:
        """Copies all that the store keeps into that of the URL `to`, which is made. Raises `Conflict`: see there."""

    async def prune_store(self, target: Target, *, dry_run: bool) -> StorePruned:
        """Removes what is older than the config keeps it, or only counts it."""

    async def back_up_store(self, target: Target, to: Path) -> StoreBackup:
        """Writes a copy of the whole store, while hosts go on. Raises `Conflict` for a file that is there already.

        Raises `UsageError` for a store whose own tools do that; it names them.
        """

    async def diagnose(self, target: Target) -> Diagnosis:
        """Looks at everything that a host rests on; what is wrong is in the answer."""

    async def migrate_store(self, target: Target) -> StoreStatus:
        """Brings the store's schema up to date. Raises `NotMigrated` if it is newer than this program."""

    def openapi(self) -> JsonObject:
        """The description of the HTTP API (OpenAPI 3.1)."""

    async def serve(self, target: Target, options: ServeOptions) -> None:
        """Runs the host until it is told to stop, then drains. Returns after a clean drain."""

    def scaffold(self, folder: Path) -> Sequence[Path]:
        """`init`: writes a config, a plugin package and a test; returns the files. Never overwrites one."""
