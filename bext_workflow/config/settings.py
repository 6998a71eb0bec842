"""The shape of `bext.config.toml`, as pydantic checks it. A field's description is its documentation and its mend.

Every table is frozen and strict: no key that is not here, no value of another type, no NaN.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from bext_workflow.config.values import (
    check_cron,
    check_error_name,
    check_host_name,
    check_listen,
    check_name,
    check_network,
    check_schema,
    check_source,
    check_step_name,
    check_store,
    check_text,
    check_timezone,
    one_or_several,
)
from bext_workflow.model.fork import OnConflict
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.schedule import CatchUp, Overlap
from bext_workflow.model.wait import NotBy
from bext_workflow.plugin.registry import Isolation
from bext_workflow.ports.hosting import LEASE_MS

MAX_MS = 10**12
"""About 31 years: any wait or bound in ms stays far inside 64 bits when it is added to a time."""

Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=MAX_MS)]
Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Text: TypeAlias = Annotated[str, Field(max_length=10_000), AfterValidator(check_text)]
Name: TypeAlias = Annotated[str, AfterValidator(check_name)]
Key: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(check_text)]
ErrorNames: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(check_error_name)], ...], Field(strict=False)]


class Table(BaseModel):
    """A table of the config. `later` names the keys that are not yet supported, each with what to do instead."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
    later: ClassVar[dict[str, str]] = {}

    @classmethod
    def by_key(cls) -> dict[str, FieldInfo]:
        """The fields by the keys that the file has for them."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    def stated(self, *, but: Collection[str] = ()) -> JsonObject:
        """The keys that the file states, in the order of the fields."""
        fields = type(self).model_fields.items()
        return {
            field.alias or name: getattr(self, name)
            for name, field in fields
            if name in self.model_fields_set and name not in but
        }


class UndoRetries(Table):
    """How an undo is retried; absent keys have the plugin's value in an overlay, else the default policy's."""

    later = {"max_elapsed_ms": "bound the tries of an undo with max_attempts"}

    max_attempts: Count = Field(default=10, description="all tries, the first one too")
    backoff_ms: Milliseconds = Field(default=1000, description="wait before the second attempt")
    backoff_multiplier: float = Field(
        default=2.0, ge=1, description="each further wait is this many times the one before"
    )
    max_backoff_ms: Milliseconds = Field(default=300_000, description="no wait is longer; 0 means no wait at all")
    jitter: float = Field(default=0.0, ge=0, le=1, description="share of a wait that chance may take off, 0.0 to 1.0")
    on_exhausted: Annotated[OnExhausted, Field(strict=False)] = Field(
        default=OnExhausted.COMPENSATE, description="what follows when no attempt is left: compensate, fail or incident"
    )


class Retries(UndoRetries):
    """How an attempt is retried; absent keys have the plugin's value in an overlay, else the default policy's."""

    later = {}

    max_attempts: Count = Field(default=3, description="all tries, the first one too")
    max_backoff_ms: Milliseconds = Field(default=30_000, description="no wait is longer; 0 means no wait at all")
    max_elapsed_ms: Milliseconds = Field(
        default=0, description="no retry starts later than this after the step was entered; 0 means no bound"
    )


class Approval(Table):
    """A wait that is a person's decision; its time is the wait's `timeout_ms`, its form the wait's `schema`."""

    title: Text = Field(default="", description="what is to be decided, in words")
    by: Annotated[tuple[Key, ...], Field(strict=False)] = Field(
        default=(),
        description="who may decide: users of the operating system, access tokens, their roles; empty: anybody",
    )
    not_by: Annotated[NotBy | None, Field(strict=False)] = Field(
        default=None, description='who may not, even so: "starter" is who started the run'
    )
    remind_ms: Milliseconds = Field(default=0, description="a reminder is told once, after so long; 0: none")
    on_reject: str | None = Field(
        default=None, description='the step that follows a rejection, or "end"; absent: the run compensates'
    )


class Wait(Table):
    """A step that the host does itself: it waits for a signal. In an overlay only the stated keys count."""

    signal: Name | None = Field(
        default=None, description="the name of the signal that ends the wait; an overlay may leave it out"
    )
    into: Key | None = Field(
        default=None, description="the context key that takes the payload; absent: the signal's name"
    )
    timeout_ms: Milliseconds = Field(default=0, description="the longest wait; 0 means no bound")
    on_timeout: str | None = Field(
        default=None, description='the step that follows when the time is over, or "end"; absent: the run compensates'
    )
    schema_: Annotated[JsonObject, AfterValidator(check_schema)] | None = Field(
        default=None,
        alias="schema",
        description="a JSON Schema that the payload, or an approval's form, satisfies",
    )
    approval: Approval | None = Field(
        default=None, description='the wait is a person\'s decision, such as { by = ["ada"], not_by = "starter" }'
    )


class Join(Table):
    """Where the branches of a fork meet; it stands on the forking step."""

    at: str = Field(description="the step before which the branches meet")
    need: Literal["all", "any"] | Count = Field(
        default="all", description="how many must arrive: all, any or a number; the others are stopped and undone"
    )
    on_conflict: Annotated[OnConflict, Field(strict=False)] = Field(
        default=OnConflict.FAIL,
        description="what two branches that set one key differently mean: fail, or last (in the order of next)",
    )


class Map(Table):
    """One branch for each item of a list in the context; it stands on the forking step."""

    over: Key = Field(description="the context key that holds the list")
    at: str = Field(description="the step at which each item's branch begins")
    join: str = Field(description="the step before which all of them meet")
    max_concurrency: Count = Field(default=10, description="how many items are under way at once")
    collect: Key | None = Field(
        default=None, description="the context key that takes what the branches set, in the order of the items"
    )


class Step(Table):
    """A step of a workflow. In an overlay only the stated keys count."""

    later = {
        "rate": "limit the rate inside the step",
        "on_incident": "watch `bext-host incidents list`",
    }

    name: Annotated[str, AfterValidator(check_step_name)] = Field(description="the step's name, as run_step gets it")
    description: Text = Field(default="", description="words for people")
    retries: Retries = Field(default=Retries(), description="a table, such as { max_attempts = 3, backoff_ms = 500 }")
    retry_on: ErrorNames | None = Field(default=None, description="names of exceptions that are worth another attempt")
    idempotent: bool = Field(default=True, description="whether the step is safe to repeat with its idempotency key")
    transactional: bool = Field(
        default=False, description="whether the step acts in the transaction of its own checkpoint, run.transaction()"
    )
    timeout_ms: Milliseconds = Field(default=60_000, description="bound of one attempt; 0 means none")
    heartbeat_ms: Milliseconds = Field(
        default=0,
        description="an attempt that calls run.heartbeat has so long from then on, at least; 0: it calls none",
    )
    next: Annotated[str | tuple[str, ...] | None, BeforeValidator(one_or_several)] = Field(
        default=None, description='the step that follows, "end", or a list: a fork; absent: the next in the list'
    )
    join: Join | None = Field(default=None, description='where a fork meets, such as { at = "pack" }')
    map: Map | None = Field(
        default=None, description='a branch an item, such as { over = "parcels", at = "ship", join = "pack" }'
    )
    branches: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="further steps that an outcome may choose as its next"
    )
    compensation_retries: UndoRetries = Field(default=UndoRetries(), description="how the undo is retried")
    compensate_on_failure: bool = Field(
        default=False, description="whether a failed visit that may have acted is undone first"
    )
    undo_idempotent: bool = Field(default=True, description="whether the undo is safe to repeat with its key")
    pivot: bool = Field(default=False, description="once this step has completed, nothing is undone any more")
    wait: Wait | None = Field(
        default=None, description='the host waits here for a signal, such as { signal = "approved", timeout_ms = 5000 }'
    )
    sleep_ms: Milliseconds = Field(default=0, description="the host waits here so long; 0: the step is the plugin's")
    workflow: Name | None = Field(
        default=None,
        description="the step is a run of this workflow, a sub-workflow; its result comes under the step's name",
    )
    max_visits: Count = Field(default=10_000, description="bound of a loop through this step")


class Workflow(Table):
    """A workflow of a plugin: one of its own definitions, overlaid, or a further one."""

    later = {
        "context_schema": "check the context in the first step",
        "sensitive": "keep secrets out of the context",
        "on_incident": "watch `bext-host incidents list`",
        "concurrency": "use [host] concurrency",
        "concurrency_key": "use [host] concurrency",
        "priority": "runs are driven in the order in which they are due",
    }

    id: Name = Field(description="the workflow's id")
    version: int = Field(default=1, ge=1, le=2**31 - 1, description="a whole number from 1")
    description: Text = Field(default="", description="words for people")
    timeout_ms: Milliseconds = Field(
        default=0, description="bound of a whole run from its first attempt, waits included; 0 means none"
    )
    retry_on: ErrorNames = Field(default=(), description="retry_on of the steps that do not state their own")
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1)] = Field(
        description="the steps in order, at least one: steps = [ { name = … }, … ]"
    )


class Schedule(Table):
    """A schedule of a plugin: one of its own, of which only the stated keys are laid over, or a further one."""

    id: Name = Field(description="the schedule's id, unique over the whole config")
    workflow: Name | None = Field(default=None, description="the workflow that it starts, whichever plugin serves it")
    version: int | None = Field(
        default=None, ge=1, le=2**31 - 1, description="the version that it starts; absent: the highest that is served"
    )
    cron: Annotated[str | None, AfterValidator(check_cron)] = Field(
        default=None, description='minute hour day-of-month month day-of-week, such as "30 2 * * *"'
    )
    timezone: Annotated[str, AfterValidator(check_timezone)] = Field(
        default="UTC", description='the zone that cron means, such as "Europe/Madrid"'
    )
    overlap: Annotated[Overlap, Field(strict=False)] = Field(
        default=Overlap.SKIP, description="what follows while the run before is live: skip, allow or buffer_one"
    )
    catch_up: Annotated[CatchUp, Field(strict=False)] = Field(
        default=CatchUp.LATEST,
        description="which of the missed instants are made up for: latest, all or skip",
    )
    context: dict[str, Json] = Field(default={}, description="a table: the context that its runs start with")
    tags: dict[str, Text] = Field(default={}, description="a table of strings: tags of its runs")
    enabled: bool = Field(default=True, description="false: it starts nothing, and misses nothing meanwhile")


class Plugin(Table):
    """A plugin to load. Only plugins that stand in the config are imported."""

    name: Name = Field(description='the name of its entry point in group "bext_workflow"')
    source: Annotated[str, AfterValidator(check_source)] | None = Field(
        default=None, description='the distribution that it must come from: "@bext/workflow-pg" is bext-workflow-pg'
    )
    isolation: Annotated[Isolation, Field(strict=False)] = Field(
        default=Isolation.INLINE,
        description="where its code runs: inline (plain functions in worker threads), or process (in processes of its "
        "own)",
    )
    config: dict[str, Json] | None = Field(
        default=None, description='a table for the plugin itself; secrets as { env = "NAME" } or { file = "path" }'
    )
    workflows: Annotated[tuple[Workflow, ...], Field(strict=False)] = Field(
        default=(), description="a list of tables: write [[plugins.workflows]] below its [[plugins]]"
    )
    schedules: Annotated[tuple[Schedule, ...], Field(strict=False)] = Field(
        default=(), description="a list of tables: write [[plugins.schedules]] below its [[plugins]]"
    )


class Limits(Table):
    """Every bound of the host."""

    context_bytes: int = Field(
        default=1_048_576, ge=2, le=2**30, description="size of a run's context as JSON text, in bytes"
    )
    threads: int = Field(default=64, ge=1, le=10_000, description="worker threads for plain (not async) hooks")
    requests_per_s: int = Field(
        default=1_000, ge=1, le=1_000_000, description="HTTP requests that one access token may make in a second"
    )
    leaked_threads: int = Field(
        default=16, ge=1, le=10_000, description="threads that outlived their time-out before the host drains itself"
    )
    processes: int = Field(
        default=4, ge=1, le=1_000, description='processes of each plugin with isolation = "process": calls at a time'
    )


class Retention(Table):
    """How many days a run is kept after its end, by how it ended; 0: for good.

    It stays as long as it has an open incident or a completion call to make, and a sub-workflow as long as the run that
    it belongs to.
    """

    completed_days: Days = Field(default=30, description="of runs that are COMPLETED")
    compensated_days: Days = Field(default=90, description="of runs that are COMPENSATED")
    failed_days: Days = Field(default=90, description="of runs that are FAILED")
    cancelled_days: Days = Field(default=90, description="of runs that are CANCELLED")


class Webhooks(Table):
    """What webhooks may reach."""

    allow: Annotated[tuple[Annotated[str, AfterValidator(check_network)], ...], Field(strict=False)] = Field(
        default=(),
        description='networks that are not public and may be told something all the same, such as "10.0.0.0/8"',
    )


class Host(Table):
    """The host itself."""

    later = {
        "workers": "the host uses one process",
    }

    store: Annotated[str | JsonObject, BeforeValidator(check_store)] = Field(
        default="sqlite:bext.db",
        description="where runs live: sqlite:PATH, sqlite::memory:, or a URL that a plugin serves; as a secret "
        '{ env = "NAME" } or { file = "path" }',
    )
    listen: Annotated[str, AfterValidator(check_listen)] = Field(
        default="127.0.0.1:7420",
        description="address and port of the HTTP API; one that other machines reach needs access tokens",
    )
    allowed_hosts: Annotated[tuple[Annotated[str, AfterValidator(check_host_name)], ...], Field(strict=False)] = Field(
        default=(),
        description="names besides localhost and the address itself by which the API may be called, without a port",
    )
    concurrency: int = Field(default=512, ge=1, le=100_000, description="runs that are driven at once")
    drain_timeout_ms: Milliseconds = Field(default=30_000, description="what running attempts get when the host stops")
    poll_ms: int | None = Field(
        default=None,
        ge=1,
        le=60_000,
        description="how often the store is asked for acts and due runs; absent: 100 for SQLite, 5000 for PostgreSQL, "
        "where a host is woken",
    )
    lease_ms: int = Field(
        default=LEASE_MS,
        ge=1_000,
        le=600_000,
        description="how long a host that is not heard of keeps its runs, where several share a store",
    )
    start_keys_days: Days = Field(
        default=400,
        description="how many days the start key of a removed run is answered with 410 before it is forgotten",
    )
    limits: Limits = Field(default=Limits(), description="a table: [host.limits]")
    retention: Retention = Field(default=Retention(), description="a table: [host.retention]")
    webhooks: Webhooks = Field(default=Webhooks(), description="a table: [host.webhooks]")


class Settings(Table):
    """The whole file."""

    host: Host = Field(default=Host(), description="a table: [host]")
    plugins: Annotated[tuple[Plugin, ...], Field(strict=False)] = Field(
        default=(), description="a list of tables: write [[plugins]] for each"
    )
