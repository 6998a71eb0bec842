"""Every command, by name."""

from __future__ import annotations

import click

from bext_workflow.faces.cli.lazy import Lazy, LazyGroup

PROGRAM = "bext-host"

_HERE = "bext_workflow.faces.cli.commands"


def _version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        click.echo(f"{PROGRAM} {version('bext-workflow')}")
        context.exit()


_RUNS = LazyGroup(
    "runs",
    help="Start runs, look at them, act on them. `run` is the same.",
    children={
        "start": Lazy(f"{_HERE}.runs_start:start", "Start a run of a workflow."),
        "list": Lazy(f"{_HERE}.runs_read:list_runs", "List runs, newest first."),
        "show": Lazy(f"{_HERE}.runs_read:show", "Show a run: its steps, its context, what holds it."),
        "events": Lazy(f"{_HERE}.runs_read:events", "List the journal of a run."),
        "watch": Lazy(f"{_HERE}.runs_follow:watch", "Follow a run until it has ended."),
        "result": Lazy(f"{_HERE}.runs_follow:result", "Show how a run ended; the exit code tells it too."),
        "why": Lazy(f"{_HERE}.runs_read:why", "Say why a run stands where it does, and what may happen next."),
        "cancel": Lazy(f"{_HERE}.runs_act:cancel", "Stop a run and undo what it has done."),
        "retry": Lazy(f"{_HERE}.runs_act:retry", "Set a failed run going again."),
        "fork": Lazy(f"{_HERE}.runs_start:fork", "Begin a new run where an ended one stood."),
        "signal": Lazy(f"{_HERE}.runs_act:signal", "Send a signal to a run: to the wait that wants it, now or later."),
        "pause": Lazy(f"{_HERE}.runs_act:pause", "Hold a run: nothing new starts."),
        "resume": Lazy(f"{_HERE}.runs_act:resume", "Let a paused run go on."),
    },
)

_INCIDENTS = LazyGroup(
    "incidents",
    help="What a person must decide.",
    children={
        "list": Lazy(f"{_HERE}.incidents:list_incidents", "List incidents, newest first."),
        "show": Lazy(f"{_HERE}.incidents:show", "Show an incident and the answers that it takes."),
        "resolve": Lazy(f"{_HERE}.incidents:resolve", "Answer an incident."),
    },
)

_APPROVALS = LazyGroup(
    "approvals",
    help="What waits for a decision.",
    children={
        "list": Lazy(f"{_HERE}.approvals:list_approvals", "List approvals: what waits for a decision."),
        "approve": Lazy(f"{_HERE}.approvals:approve", "Say yes."),
        "reject": Lazy(f"{_HERE}.approvals:reject", "Say no."),
    },
)

_SCHEDULES = LazyGroup(
    "schedules",
    help="What starts runs by itself.",
    children={
        "list": Lazy(f"{_HERE}.schedules:list_schedules", "List the schedules."),
        "next": Lazy(f"{_HERE}.schedules:next_fires", "Show when a schedule comes round next."),
        "pause": Lazy(f"{_HERE}.schedules:pause", "Let a schedule start nothing."),
        "resume": Lazy(f"{_HERE}.schedules:resume", "Let a paused schedule go on."),
        "trigger": Lazy(f"{_HERE}.schedules:trigger", "Start a run of a schedule now."),
    },
)

_TOKENS = LazyGroup(
    "tokens",
    help="Who may ask a host, and for what.",
    children={
        "create": Lazy(f"{_HERE}.tokens:create", "Make an access token."),
        "list": Lazy(f"{_HERE}.tokens:list_tokens", "List the access tokens."),
        "revoke": Lazy(f"{_HERE}.tokens:revoke", "Make a token good for nothing."),
    },
)

_WEBHOOKS = LazyGroup(
    "webhooks",
    help="Who is told of what happens to runs.",
    children={
        "create": Lazy(f"{_HERE}.webhooks:create", "Have a URL told what happens to runs."),
        "list": Lazy(f"{_HERE}.webhooks:list_webhooks", "List the webhooks."),
        "remove": Lazy(f"{_HERE}.webhooks:remove", "Tell a webhook nothing any more."),
        "deliveries": Lazy(f"{_HERE}.webhooks:deliveries", "List what webhooks were told."),
        "redeliver": Lazy(f"{_HERE}.webhooks:redeliver", "Send a delivery again."),
    },
)

_HOSTS = LazyGroup(
    "hosts",
    help="Who drives the store.",
    children={"list": Lazy(f"{_HERE}.hosts:list_hosts", "List the hosts that drive this store.")},
)

_AUDIT = LazyGroup(
    "audit",
    help="Who did what, when and why.",
    children={
        "list": Lazy(f"{_HERE}.audit:list_audit", "List what persons and programs have done, newest first."),
        "export": Lazy(f"{_HERE}.audit:export", "Write all of it to stdout, oldest first: one JSON object a line."),
    },
)

_PLUGINS = LazyGroup(
    "plugins",
    help="The plugins that the config names.",
    children={
        "list": Lazy(f"{_HERE}.plugins:list_plugins", "List the plugins."),
        "show": Lazy(f"{_HERE}.plugins:show", "Show a plugin."),
    },
)

_WORKFLOWS = LazyGroup(
    "workflows",
    help="The workflows that can be started.",
    children={
        "list": Lazy(f"{_HERE}.workflows:list_workflows", "List the workflows."),
        "show": Lazy(f"{_HERE}.workflows:show", "Show a workflow and its steps."),
    },
)

_CONFIG = LazyGroup(
    "config",
    help="The configuration.",
    children={"show": Lazy(f"{_HERE}.config:show", "Show the config in effect: defaults filled in, secrets left out.")},
)

_DB = LazyGroup(
    "db",
    help="The store itself.",
    children={
        "status": Lazy(f"{_HERE}.db:status", "Show whether the store's schema is the one that this program speaks."),
        "migrate": Lazy(f"{_HERE}.db:migrate", "Bring the store's schema up to date, or make it."),
        "copy": Lazy(f"{_HERE}.db:copy", "Copy everything into another store, such as from SQLite to PostgreSQL."),
        "prune": Lazy(f"{_HERE}.db:prune", "Remove what is older than the config keeps it."),
        "backup": Lazy(f"{_HERE}.db:backup", "Write a copy of the whole store into a new file, while hosts go on."),
    },
)

root = LazyGroup(
    PROGRAM,
    help="Durable workflows and sagas: serve them, start them, look after them.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_version,
            help="Show the version.",
        )
    ],
    children={
        "demo": Lazy(f"{_HERE}.demo:demo", "See the checkout saga at work, in a folder of its own."),
        "init": Lazy(f"{_HERE}.init:init", "Write a config, a plugin package and a test, ready to run."),
        "check": Lazy(f"{_HERE}.check:check", "Say what can be known before serving."),
        "plan": Lazy(f"{_HERE}.plan:plan", "Say what the config means for the live runs, before it is served."),
        "doctor": Lazy(f"{_HERE}.doctor:doctor", "Look at everything that a host rests on."),
        "prove": Lazy(f"{_HERE}.prove:prove", "Prove that a workflow leaves nothing behind, whatever goes wrong."),
        "serve": Lazy(f"{_HERE}.serve:serve", "Run the host until it is told to stop."),
        "runs": _RUNS,
        "incidents": _INCIDENTS,
        "approvals": _APPROVALS,
        "schedules": _SCHEDULES,
        "workflows": _WORKFLOWS,
        "plugins": _PLUGINS,
        "hosts": _HOSTS,
        "tokens": _TOKENS,
        "audit": _AUDIT,
        "webhooks": _WEBHOOKS,
        "db": _DB,
        "config": _CONFIG,
        "openapi": Lazy(f"{_HERE}.openapi:openapi", "Print the description of the HTTP API."),
    },
    aliases={"run": "runs"},
)
