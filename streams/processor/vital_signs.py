"""What can be said about a worker from one second to the next: membership, recovery, lag, policies, sizes.

The worker's event loop takes the signs once a second; that sets the gauges and leaves a picture which the HTTP endpoint's thread
reads. Nothing here waits for anything, and nothing is done per event.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from faust.types import TP
from prometheus_client import Gauge

from streams.operations.health import Check, Health
from streams.processor import metrics
from streams.processor.lag import Lag, LagClock
from streams.processor.partition_policy import POLICY_KEY
from streams.processor.run_processor import RunProcessor
from streams.transport import BatchTable
from streams.transport.reading import reading_of

#: Seconds that a worker is not ready before that is a line in the log: a rebalance is over sooner.
UNREADY_FOR = 10.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Picture:
    """The signs of one moment; partitions are those of the tool calls, lags those of all inputs (None: not known yet)."""

    joined: bool = False
    stopping: bool = False
    assigned: tuple[int, ...] = ()
    taken_over: bool = False
    recovering: int = 0
    policy_known: bool = False
    lags: Mapping[TP, Lag | None] = field(default_factory=dict)

    def readiness(self, max_lag: float) -> Health:
        """Return whether the worker does what it is there for; `max_lag` in seconds.

        A worker without partitions, because there are more workers than partitions, is ready: it takes over when another goes.
        """
        numbers = ", ".join(map(str, self.assigned)) or "none, there are more workers than partitions"
        recovered = self.joined and self.taken_over
        checks = [
            Check("running", not self.stopping, "is stopping" if self.stopping else "is not stopping"),
            Check("member", self.joined, "of the consumer group" if self.joined else "no heartbeat was answered in time"),
            Check(
                "recovered",
                recovered,
                f"partitions {numbers}"
                if recovered
                else f"partitions {numbers}: {self.recovering} changelog records to read"
                if self.assigned
                else "no partitions were assigned yet",
            ),
            Check("policy", self.policy_known, "is known" if self.policy_known else "the policies topic is not read yet"),
            self._lag_check(max_lag),
        ]
        return Health(checks)

    def _lag_check(self, max_lag: float) -> Check:
        behind = []
        for tp, lag in sorted(self.lags.items()):
            if lag is None:
                behind.append(f"{tp.topic}[{tp.partition}] is not known yet")
            elif not lag.certain:
                behind.append(f"{tp.topic}[{tp.partition}] has {lag.records} records of unknown age")
            elif lag.seconds > max_lag:
                behind.append(f"{tp.topic}[{tp.partition}] {lag.seconds:.1f} s ({lag.records} records)")
        if behind:
            return Check("lag", False, f"{', '.join(behind)}; bound {max_lag:g} s")
        if not self.lags:
            return Check("lag", True, "nothing to read")
        most = max((lag.seconds for lag in self.lags.values() if lag is not None), default=0.0)
        return Check("lag", True, f"at most {most:.1f} s, bound {max_lag:g} s")


class VitalSigns:
    """Takes the signs of one worker; `watch` is called when its app is built."""

    def __init__(self, *, max_lag: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.picture = Picture()
        self._max_lag = max_lag
        self._processor: RunProcessor | None = None
        self._runs: BatchTable | None = None
        self._lags: dict[TP, LagClock] = {}
        self._exported: dict[Gauge, set[tuple[str, ...]]] = {}
        self._clock = clock
        #: Names of the failed checks: those that the log was told of (None: nothing yet), and those seen since when.
        self._said: tuple[str, ...] | None = None
        self._seen: tuple[str, ...] = ()
        self._seen_since = clock()

    def watch(self, processor: RunProcessor, runs: BatchTable) -> None:
        """Take the signs of this processor and the table of its runs from now on."""
        self._processor, self._runs = processor, runs

    def readiness(self) -> Health:
        """Return whether the worker does what it is there for, as of the last look; may be called from another thread."""
        return self.picture.readiness(self._max_lag)

    def look(self) -> None:
        """Take the signs: set the gauges, say when the worker becomes ready or no longer is. For the worker's own thread."""
        processor, runs = self._processor, self._runs
        if processor is None or runs is None or not processor.app.started:
            return
        self.picture = self._look(processor)
        self._set_gauges(processor, runs)
        self._say()
        processor.run_log.tell_left_out(at_once=self.picture.stopping)

    # -- looking ---------------------------------------------------------------------------------------------------------------

    def _look(self, processor: RunProcessor) -> Picture:
        app, topics = processor.app, processor.topics
        readings = {}
        for topic in topics.inputs:
            for number in range(processor.partitions):
                tp = TP(topic, number)
                reading = reading_of(app.consumer, tp)
                if reading is not None:
                    readings[tp] = reading
        assigned = tuple(tp.partition for tp in readings if tp.topic == topics.tool_calls)
        taken_over = not (app.rebalancing or app.in_recovery) and processor.policies.owned == assigned
        for tp in set(self._lags) - set(readings):
            del self._lags[tp]
        now = time.time()
        lags = {
            tp: self._lags.setdefault(tp, LagClock()).look(
                reading,
                next_offset=processor.next_offset(tp.topic, tp.partition),
                judged_time=processor.record_times.get(tp),
                now=now,
            )
            for tp, reading in readings.items()
        }
        return Picture(
            joined=app.consumer.lease.held,
            stopping=bool(app.should_stop),
            assigned=assigned,
            taken_over=taken_over,
            recovering=0 if taken_over else self._recovering(app),
            policy_known=processor.policies.known.is_set(),
            lags=lags,
        )

    @staticmethod
    def _recovering(app: Any) -> int:
        return sum(max(0, remaining) for remaining in app.tables.recovery.active_remaining().values())

    # -- showing ---------------------------------------------------------------------------------------------------------------

    def _set_gauges(self, processor: RunProcessor, runs: BatchTable) -> None:
        picture = self.picture
        sizes = {number: runs.partitioned.size_of(number) for number in picture.assigned}
        policies = sum(runs.get_raw(number, POLICY_KEY) is not None for number, size in sizes.items() if size.keys)
        metrics.LIVE_RUNS.set(sum(size.keys for size in sizes.values()) - policies)
        metrics.STATE_BYTES.set(sum(size.bytes for size in sizes.values()))
        metrics.RECOVERY_REMAINING.set(picture.recovering)
        known = {(tp.topic, str(tp.partition)): lag for tp, lag in picture.lags.items() if lag is not None}
        self._export(metrics.LAG_RECORDS, {labels: lag.records for labels, lag in known.items()})
        self._export(metrics.LAG_SECONDS, {labels: lag.seconds for labels, lag in known.items()})
        in_force = {number: processor.policies.of(number) for number in processor.policies.owned}
        self._export(
            metrics.POLICY_INFO, {(policy.version, str(number)): 1 for number, policy in in_force.items() if policy is not None}
        )

    def _export(self, gauge: Gauge, values: Mapping[tuple[str, ...], float]) -> None:
        for labels in self._exported.get(gauge, set()) - set(values):
            gauge.remove(*labels)
        for labels, value in values.items():
            gauge.labels(*labels).set(value)
        self._exported[gauge] = set(values)

    def _say(self) -> None:
        health = self.readiness()
        failed = tuple(check.name for check in health.checks if not check.ok)
        if failed != self._seen:
            self._seen, self._seen_since = failed, self._clock()
        if failed == self._said or self.picture.stopping:
            return
        if health.ok:
            log.info("worker is ready", partitions=list(self.picture.assigned))
        elif self._clock() - self._seen_since >= UNREADY_FOR:
            log.warning("worker is not ready", reason=health.faults)
        else:
            return
        self._said = failed
