"""What a worker counts (prometheus-client's default registry)."""

from prometheus_client import Counter

EVENTS = Counter("loopwarden_events", "Events of the input topics, by what became of them.", ["topic", "result"])
DECISIONS = Counter("loopwarden_decisions", "Decisions published.", ["action", "detector", "mode"])
DEAD_LETTERS = Counter("loopwarden_dead_letters", "Records sent to a dead-letter topic.", ["topic", "code"])
MISROUTED = Counter("loopwarden_misrouted_events", "Events sent on to the partition that they belong to.", ["topic"])
