"""What a worker measures (prometheus-client's default registry); docs/metrics.md says what each is for.

Nothing here is done per event: counters move once a batch, gauges once a second (`vital_signs`). Labels have few values, none of
them from the content of an event: topics, partitions, and words of our own.
"""

import time
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from itertools import product
from typing import get_args

from prometheus_client import Counter, Gauge, Histogram

from schemas.made_decisions import MadeDecision
from schemas.policy.model import DETECTOR_NAMES, Mode
from schemas.topics import Topics
from streams.detection.engine import Effect
from streams.detection.guard import NAME as GUARD

EVENTS = Counter(
    "loopwarden_events",
    "Records of the input topics by what became of them: applied, ignored, duplicate, redelivered, late_compaction, dead_letter, "
    "misrouted.",
    ["topic", "result"],
)
DECISIONS = Counter("loopwarden_decisions", "Decisions that the broker has acknowledged.", ["action", "detector", "mode"])
DECISION_LATENCY = Histogram(
    "loopwarden_decision_latency_seconds",
    "From the time of the event that a decision is as of until the decision was acknowledged.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
BATCH_DURATION = Histogram(
    "loopwarden_batch_duration_seconds",
    "From taking up a batch until all that it brought was acknowledged.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
BATCH_RECORDS = Histogram(
    "loopwarden_batch_records", "Records of a batch.", buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
)
DEAD_LETTERS = Counter("loopwarden_dead_letters", "Records that went to a dead-letter topic.", ["topic", "code"])
MISROUTED = Counter("loopwarden_misrouted_events", "Events sent on to the partition that they belong to.", ["topic"])
LATE_COMPACTIONS = Counter("loopwarden_late_compactions", "Compactions that were read after tool calls that follow them.")

LAG_RECORDS = Gauge(
    "loopwarden_consumer_lag_records", "Records of an owned partition that are not judged yet.", ["topic", "partition"]
)
LAG_SECONDS = Gauge(
    "loopwarden_consumer_lag_seconds",
    "Upper bound of how long the oldest record of an owned partition that is not judged yet has been in the log.",
    ["topic", "partition"],
)
LIVE_RUNS = Gauge("loopwarden_live_runs", "Runs with a stored state, of the owned partitions.")
STATE_BYTES = Gauge(
    "loopwarden_state_bytes",
    "Size of the stored states of the owned partitions: keys and values in memory, or RocksDB's files and write buffers.",
)
RECOVERY_REMAINING = Gauge(
    "loopwarden_recovery_remaining_records", "Changelog records still to be read until states are recovered."
)
POLICY_INFO = Gauge(
    "loopwarden_policy_info", "The policy that an owned partition is judged by; the value is 1.", ["version", "partition"]
)


def begin(topics: Topics) -> None:
    """Make the series that can be foreseen, so that their first increase shows: a counter has to be seen at 0 before."""
    for topic, result in product(topics.inputs, (*get_args(Effect), "dead_letter", "misrouted")):
        EVENTS.labels(topic, result)
    for topic in topics.inputs:
        MISROUTED.labels(topic)
    for detector, mode in product(DETECTOR_NAMES, get_args(Mode)):
        for action in ("abort", "release") if detector == GUARD else ("block", "warn", "release"):
            DECISIONS.labels(action, detector, mode)


def count_batch(topic: str, *, seconds: float, results: Mapping[str, int], dead_letters: Mapping[str, int]) -> None:
    """Count a batch of which all is acknowledged: its records by result, and the dead letters among them by code."""
    BATCH_DURATION.observe(seconds)
    BATCH_RECORDS.observe(sum(results.values()))
    for result, number in results.items():
        EVENTS.labels(topic, result).inc(number)
    for code, number in dead_letters.items():
        DEAD_LETTERS.labels(topic, code).inc(number)
    if misrouted := results.get("misrouted"):
        MISROUTED.labels(topic).inc(misrouted)
    if late := results.get("late_compaction"):
        LATE_COMPACTIONS.inc(late)


def count_decisions(decisions: Iterable[MadeDecision]) -> None:
    """Count decisions that are acknowledged."""
    tally = Tally((decision.action, decision.detector, decision.mode) for decision in decisions)
    for labels, number in tally.items():
        DECISIONS.labels(*labels).inc(number)


def observe_latency(decisions: Iterable[MadeDecision]) -> None:
    """Observe how long after their events decisions were acknowledged, just now.

    Not meant for decisions without an event of their own: those of another policy, or of runs that are forgotten.
    """
    now = time.time()
    for decision in decisions:
        # An event time ahead of our clock is a wrong clock, not a decision in advance.
        DECISION_LATENCY.observe(max(0.0, now - decision.as_of.time / 1000))
