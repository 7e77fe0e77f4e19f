"""What a gateway counts (prometheus-client's default registry)."""

from prometheus_client import Counter, Gauge

PUBLISHED = Counter("loopwarden_gateway_events_published", "Events that the broker has.")
DROPPED = Counter("loopwarden_gateway_events_dropped", "Events that did not reach the broker.", ["reason"])
VERDICTS = Counter("loopwarden_gateway_verdicts", "Answers of the gate other than `allow`.", ["action", "mode"])
LAG = Gauge("loopwarden_gateway_lag_seconds", "Age of what the gate knows; +Inf before it has read everything once.")
RUNS = Gauge("loopwarden_gateway_runs", "Runs that the gate remembers something about.")
INVALID = Counter("loopwarden_gateway_invalid_decisions", "Records of the decisions topic that the gate could not read.")
EVICTED = Counter("loopwarden_gateway_runs_evicted", "Runs with standing verdicts that the gate forgot because it held too many.")

#: A counter of each kind of answer: looking one up by its labels takes longer than the answer.
ANSWERED = {
    (action, mode): VERDICTS.labels(action, mode)
    for action in ("warn", "block", "abort")
    for mode in ("enforce", "shadow", "fail_closed")
}
