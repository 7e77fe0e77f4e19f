"""Holds metrics against Prometheus' naming rules (those of `promtool check metrics`, and ours)."""

import re
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

#: Units that Prometheus has a base unit for, and abbreviations of units.
_NOT_BASE_UNITS = frozenset(
    {
        *("milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "weeks"),
        *("ms", "us", "ns", "sec", "secs", "min", "hour", "day", "millis"),
        *("kilobytes", "megabytes", "gigabytes", "kibibytes", "mebibytes", "bits", "kb", "mb", "gb"),
        *("percent", "percentage"),
    }
)
_TYPES = frozenset({"counter", "gauge", "histogram", "summary", "info", "metric"})
_RESERVED_LABELS = frozenset({"le", "quantile", "instance", "job"})

#: Labels that would have a series for each run, call or person.
_UNBOUNDED_LABELS = frozenset({"run", "run_id", "call_id", "session", "session_id", "agent", "agent_id", "decision_id", "tool"})


def families(registry: CollectorRegistry, *, prefix: str) -> list[Metric]:
    """Return the metrics of a registry that begin with a prefix."""
    return [metric for metric in registry.collect() if metric.name.startswith(prefix)]


def exposed_name(metric: Metric) -> str:
    """Return the name under which queries find a metric (of a histogram, without `_bucket`)."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def faults(metrics: Iterable[Metric]) -> list[str]:
    """Return a line for each rule that a metric breaks."""
    found = []
    for metric in metrics:
        name = exposed_name(metric)
        words = metric.name.split("_")
        labels = {label for sample in metric.samples for label in sample.labels} - {"le"}
        rules = {
            "has no help text, or one that is no sentence": not metric.documentation.strip().endswith("."),
            "is not in lower snake case": not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name),
            "is no counter, but ends with _total": metric.type != "counter" and metric.name.endswith("_total"),
            "ends with a suffix that belongs to histograms": metric.name.endswith(("_count", "_sum", "_bucket")),
            "has its type in its name": bool(_TYPES & set(words)) and metric.name != "loopwarden_policy_info",
            "has a unit that is no base unit": bool(_NOT_BASE_UNITS & set(words)),
            "is a duration, but not in seconds": {"duration", "latency", "delay"} & set(words) and words[-1] != "seconds",
            "has a label that Prometheus sets itself": bool(_RESERVED_LABELS & labels),
            "has a label with a value for each run or call": bool(_UNBOUNDED_LABELS & labels),
            "has a label that is not in lower snake case": any(not re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in labels),
        }
        found += [f"{name} {text}" for text, broken in rules.items() if broken]
    return found
