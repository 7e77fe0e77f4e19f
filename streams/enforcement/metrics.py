"""What an enforcement worker counts (prometheus-client's default registry)."""

from prometheus_client import Counter, Gauge, Histogram

RECORDS = Counter(
    "loopwarden_enforcement_records",
    "Records of the decisions topic, by what became of them: delivered, copy, filtered, dead_lettered, other.",
    ["receiver", "result"],
)
ATTEMPTS = Counter("loopwarden_enforcement_attempts", "Offers of decisions to the receiver: ok or a code.", ["receiver", "code"])
ATTEMPT_DURATION = Histogram(
    "loopwarden_enforcement_attempt_duration_seconds", "How long the receiver took to answer or not to.", ["receiver"]
)
DELAY = Histogram(
    "loopwarden_enforcement_delay_seconds",
    "From the time of a decision until the receiver had it.",
    ["receiver"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
DEAD_LETTERS = Counter("loopwarden_enforcement_dead_letters", "Decisions given up, by the last failure.", ["receiver", "code"])
UNHANDLED = Gauge("loopwarden_enforcement_unhandled_records", "Records read and not yet handled.", ["receiver"])
