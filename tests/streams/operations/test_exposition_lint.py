"""The linter finds what it is there for."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tests.streams.operations.exposition_lint import families, faults


@pytest.mark.parametrize(
    ("kind", "name", "help_text", "labels", "fault"),
    [
        (Gauge, "x_lag_ms", "A lag.", [], "base unit"),
        (Gauge, "x_used_percent", "A part.", [], "base unit"),
        (Gauge, "x_runs", "", [], "help text"),
        (Gauge, "x_runs", "live runs", [], "help text"),
        (Gauge, "x_runs_total", "Runs.", [], "_total"),
        (Gauge, "x_runs_count", "Runs.", [], "suffix"),
        (Gauge, "x_runs_gauge", "Runs.", [], "type"),
        (Gauge, "x_liveRuns", "Runs.", [], "snake case"),
        (Histogram, "x_delay", "A delay.", [], "seconds"),
        (Counter, "x_calls", "Calls.", ["run_id"], "each run"),
        (Counter, "x_calls", "Calls.", ["tool"], "each run"),
        (Counter, "x_calls", "Calls.", ["instance"], "itself"),
        (Counter, "x_calls", "Calls.", ["callKind"], "snake case"),
    ],
)
def test_a_broken_rule_is_told(kind: type[Gauge], name: str, help_text: str, labels: list[str], fault: str) -> None:
    registry = CollectorRegistry()
    metric = kind(name, help_text, labels, registry=registry)
    if labels:
        metric.labels("value")
    (found,) = faults(families(registry, prefix="x_"))
    assert fault in found


def test_a_metric_as_it_should_be_is_no_fault() -> None:
    registry = CollectorRegistry()
    Counter("x_calls", "Calls.", ["topic"], registry=registry).labels("t")
    Histogram("x_delay_seconds", "A delay.", registry=registry)
    assert faults(families(registry, prefix="x_")) == []
