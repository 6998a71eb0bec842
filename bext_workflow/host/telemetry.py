"""Telemetry by structlog and prometheus-client: one registry a host, nothing global."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from structlog.typing import FilteringBoundLogger

from bext_workflow.ports.telemetry import LOG_LEVELS, METRICS


class HostTelemetry:
    """Writes log events at the level that their table says, and keeps the metrics."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._registry = CollectorRegistry(auto_describe=False)
        self._metrics: dict[str, Gauge | Counter] = {
            name: self._metric(name, form, labels) for name, (form, labels) in METRICS.items()
        }

    def log(self, event: str, **fields: object) -> None:
        getattr(self._logger, LOG_LEVELS[event])(event, **fields)

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        one = self._metrics[metric]
        (one.labels(**labels) if labels else one).inc(amount)

    def value(self, metric: str, **labels: str) -> float:
        return self._registry.get_sample_value(metric, labels) or 0.0

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _metric(self, name: str, form: str, labels: tuple[str, ...]) -> Gauge | Counter:
        words = name.removeprefix("bext_").replace("_", " ")
        kind = Gauge if form == "gauge" else Counter
        return kind(name, words, labels, registry=self._registry)
