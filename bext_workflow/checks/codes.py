"""Everything that `check` can find, by its stable code. The reference in the docs is made of this table."""

from __future__ import annotations

import msgspec

from bext_workflow.service.wiring import Finding, Severity


class Code(msgspec.Struct, frozen=True):
    """A kind of finding: how grave it is, what it means and what mends it in general."""

    severity: Severity
    meaning: str
    mend: str


CODES = {
    "config-invalid": Code(
        Severity.ERROR,
        "The config file, or a workflow in it, cannot be used.",
        "Correct the key that is named.",
    ),
    "no-plugins": Code(
        Severity.WARNING,
        "The config names no plugin, so there is nothing to run.",
        "Add a [[plugins]] table with the name of an installed plugin.",
    ),
    "plugin-invalid": Code(
        Severity.ERROR,
        "A plugin that the config names is not installed, fails to import, or has hooks that cannot be called.",
        "Install or correct the plugin, or take it out of the config; `serve --degraded` leaves it out.",
    ),
    "serves-nothing": Code(
        Severity.WARNING,
        "A plugin brings neither a workflow nor a store.",
        "Return its workflows from definitions(), or declare them in [[plugins.workflows]].",
    ),
    "store-unusable": Code(
        Severity.ERROR,
        "The store that the config names cannot be opened.",
        "Correct host.store, or what the message names.",
    ),
    "open-to-others": Code(
        Severity.ERROR,
        "The host would listen where other machines reach it, and there is no access token: `serve` refuses that.",
        "Make a token with `tokens create`, or listen on 127.0.0.1.",
    ),
    "not-transactional": Code(
        Severity.ERROR,
        "Steps are declared transactional, and cannot act in the transaction of their own checkpoint here.",
        "Serve the plugin inline over a store in PostgreSQL, with an async run_step, or state transactional = false.",
    ),
    "step-unreachable": Code(
        Severity.WARNING,
        "No path from the first step leads to a step.",
        "Name it in a next or in branches, or drop it.",
    ),
    "never-ends": Code(
        Severity.WARNING,
        "From a step no path leads to the end: a run that gets there can only fail.",
        'Give a step of the loop a next or branches that lead out, such as "end".',
    ),
    "loop": Code(
        Severity.INFO,
        "A run may visit a step more than once; max_visits bounds it.",
        "Lower max_visits if so many visits can only be a mistake.",
    ),
    "no-undo": Code(
        Severity.INFO,
        "The plugin has no compensate_step: when a run fails, the steps that had completed stay as they are.",
        "Implement compensate_step if a step has effects that must not stay.",
    ),
    "undo-of-failed-unsaid": Code(
        Severity.WARNING,
        "The plugin undoes steps, but no step says whether a failed visit that may have acted is undone too.",
        "State compensate_on_failure on the steps: true where the undo is harmless if nothing had happened.",
    ),
    "no-timeout": Code(
        Severity.WARNING,
        "timeout_ms = 0: an attempt that hangs holds its run until the host stops.",
        "Give the step a timeout_ms.",
    ),
    "retries-need-word": Code(
        Severity.INFO,
        "The step is not idempotent: only a Retry that the plugin returns or raises is retried, never an unknown end.",
        "Nothing, if the plugin does so; else set max_attempts = 1, which says what happens.",
    ),
    "retries-without-wait": Code(
        Severity.WARNING,
        "Attempts follow one another without a wait.",
        "Set backoff_ms and max_backoff_ms.",
    ),
    "backoff-over-limit": Code(
        Severity.WARNING,
        "backoff_ms is over max_backoff_ms, so that each wait is max_backoff_ms.",
        "Raise max_backoff_ms or lower backoff_ms.",
    ),
    "wait-unbounded": Code(
        Severity.INFO,
        "A run may wait for a signal for ever: neither the wait nor the run has a timeout_ms.",
        "Give the wait a timeout_ms, with an on_timeout if the run is not to be undone then.",
    ),
    "wait-outlives-run": Code(
        Severity.WARNING,
        "A wait may last longer than the whole run may: the run is undone before the time of the wait is over.",
        "Raise the timeout_ms of the workflow, or wait less long.",
    ),
    "wait-says-too-much": Code(
        Severity.WARNING,
        "A step that the host does itself says how code is called, and there is no code to call.",
        "Leave it out; a wait is bounded by its own timeout_ms.",
    ),
    "waits-share-key": Code(
        Severity.ERROR,
        "Two branches wait for the same signal side by side, and both payloads come under one context key.",
        "Give each wait an into of its own, or let them wait for two signals.",
    ),
    "child-unserved": Code(
        Severity.ERROR,
        "A step is a run of a workflow that nothing here serves: no run of its own workflow can be started.",
        "Correct the name, or add the plugin that serves it.",
    ),
    "child-cycle": Code(
        Severity.WARNING,
        "A workflow runs itself, through its sub-workflows: runs that are nested too deep fail.",
        "Lead out of the cycle by a next that does not run the sub-workflow again.",
    ),
    "slow-to-fail": Code(
        Severity.INFO,
        "A step may try for more than a day before it counts as failed.",
        "Lower max_attempts, max_backoff_ms or timeout_ms if nobody wants to wait so long.",
    ),
    "live-graph-changed": Code(
        Severity.ERROR,
        "Runs are live on another graph of the same workflow version; serve refuses to drive them on this one.",
        "Give the changed workflow a new version, and keep serving the old one until its runs have ended.",
    ),
    "live-unserved": Code(
        Severity.WARNING,
        "Runs are live of a workflow version that nothing here serves; they are left alone.",
        "Keep the version in the plugin or in the config until its runs have ended.",
    ),
}


def finding(code: str, where: str, message: str, *, mend: str = "") -> Finding:
    """A finding of a known code; its mend is the code's unless there is a better one."""
    known = CODES[code]
    return Finding(code=code, severity=known.severity, where=where, message=message, mend=mend or known.mend)
