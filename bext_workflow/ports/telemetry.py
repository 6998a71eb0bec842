"""What the host reports: log events and metrics, by name. `docs/reference.md` is held to these tables by a test."""

from __future__ import annotations

from typing import Protocol

HOST_WAITS = "host_waits"
HOST_STARTED = "host_started"
HOST_DRAINING = "host_draining"
HOST_STOPPED = "host_stopped"
RUN_CLAIMED = "run_claimed"
RUN_RECOVERED = "run_recovered"
LEFT_IN_PLACE = "left_in_place"
INCIDENT_OPENED = "incident_opened"
APPROVAL_REMINDED = "approval_reminded"
LEASE_LOST = "lease_lost"
HOST_LEASE_LOST = "host_lease_lost"
DRIVER_CRASHED = "driver_crashed"
STORE_UNAVAILABLE = "store_unavailable"
STORE_BACK = "store_back"
THREAD_LEAKED = "thread_leaked"
LATE_RESULT = "late_result"
PLUGIN_LEFT_OUT = "plugin_left_out"
SCHEDULE_STARTED = "schedule_started"
SCHEDULE_PASSED = "schedule_passed"
SCHEDULE_FAILED = "schedule_failed"
DELIVERY_FAILED = "delivery_failed"
RUNS_REMOVED = "runs_removed"

LOG_LEVELS = {
    HOST_WAITS: "warning",
    HOST_STARTED: "info",
    HOST_DRAINING: "info",
    HOST_STOPPED: "info",
    RUN_CLAIMED: "debug",
    RUN_RECOVERED: "warning",
    LEFT_IN_PLACE: "error",
    INCIDENT_OPENED: "error",
    APPROVAL_REMINDED: "warning",
    LEASE_LOST: "warning",
    HOST_LEASE_LOST: "error",
    DRIVER_CRASHED: "error",
    STORE_UNAVAILABLE: "error",
    STORE_BACK: "info",
    THREAD_LEAKED: "warning",
    LATE_RESULT: "warning",
    PLUGIN_LEFT_OUT: "warning",
    SCHEDULE_STARTED: "info",
    SCHEDULE_PASSED: "warning",
    SCHEDULE_FAILED: "error",
    DELIVERY_FAILED: "error",
    RUNS_REMOVED: "info",
}
"""Every log event with its level."""

INCIDENTS_OPEN = "bext_incidents_open"
RUNS_LEFT_IN_PLACE = "bext_runs_left_in_place_total"
RESULTS_DISCARDED = "bext_results_discarded_total"
THREADS_LEAKED = "bext_threads_leaked"
SCHEDULE_SLOTS = "bext_schedule_slots_total"
DELIVERIES = "bext_webhook_deliveries_total"

REMOVED = "bext_runs_removed_total"

METRICS = {
    INCIDENTS_OPEN: ("gauge", ("kind",)),
    RUNS_LEFT_IN_PLACE: ("counter", ()),
    RESULTS_DISCARDED: ("counter", ()),
    THREADS_LEAKED: ("gauge", ()),
    SCHEDULE_SLOTS: ("counter", ("schedule", "result")),
    DELIVERIES: ("counter", ("result",)),
    REMOVED: ("counter", ("status",)),
}
"""Every metric with its form and labels."""


class Telemetry(Protocol):
    """Takes what the host reports. Calls are quick and never raise."""

    def log(self, event: str, **fields: object) -> None:
        """Writes a log event of `LOG_LEVELS` with its fields."""

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Moves a metric of `METRICS`."""

    def value(self, metric: str, **labels: str) -> float:
        """What the metric stands at."""
