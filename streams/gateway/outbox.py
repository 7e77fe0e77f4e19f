"""Events on their way from the agent to Kafka: bounded, so that an agent never waits and never grows."""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal

from streams.gateway import metrics
from streams.gateway.event_writer import WrittenEvent

log = logging.getLogger("loopwarden.gateway")

#: Runs whose lost events are remembered until their next event; of the oldest beyond it only the total remains.
_MAX_RUNS_WITH_LOSSES = 10_000

Reason = Literal["buffer_full", "no_json_form", "invalid", "refused", "closed"]


class Outbox:
    """What has been reported and is not yet at the broker. May be used from any thread.

    Once it holds `max_events` events or `max_bytes` bytes, what comes is dropped: the events of a run that are sent are then
    without a gap up to the loss, and the first one after it tells of the loss. `dropped` and `published` are totals.
    """

    def __init__(self, *, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._waiting: deque[WrittenEvent] = deque()
        self._events = 0
        self._bytes = 0
        self._lost: dict[str, int] = {}
        self._lock = threading.Lock()
        #: the number of the drop that began the present overflow
        self._overflowed_at = 0
        self.dropped = 0
        self.published = 0

    @property
    def pending(self) -> int:
        """Events that are neither published nor dropped."""
        return self._events

    @property
    def full(self) -> bool:
        """Whether nothing more is taken at the moment."""
        return self._events >= self._max_events or self._bytes >= self._max_bytes

    def put(self, event: WrittenEvent) -> None:
        """Take an event over."""
        with self._lock:
            self._waiting.append(event)
            self._events += 1
            self._bytes += len(event.value)

    def take(self) -> list[WrittenEvent]:
        """Hand over what is waiting, in order; it stays pending."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken

    def settle(self, events: Sequence[WrittenEvent]) -> None:
        """Note that the broker has these."""
        metrics.PUBLISHED.inc(len(events))
        with self._lock:
            self.published += len(events)
            self._remove(events)
            since = self._overflowed_at if not self._events else 0
            if since:
                self._overflowed_at = 0
        if since:
            log.warning("Kafka has taken all events that waited; %d were dropped meanwhile", self.dropped - since + 1)

    def give_up(self, events: Sequence[WrittenEvent], reason: Reason, detail: str) -> None:
        """Note that these will not reach the broker."""
        with self._lock:
            self._remove(events)
        for event in events:
            self.drop(event.run_id, reason)
        log.warning("%d events were dropped: %s", len(events), detail)

    def abandon(self) -> None:
        """Give up all that is pending: nobody sends it any more."""
        with self._lock:
            left, self._events, self._bytes = self._events, 0, 0
            self._waiting.clear()
            self.dropped += left
        if left:
            metrics.DROPPED.labels("closed").inc(left)
            log.warning("%d events were dropped: the publisher was closed before Kafka had them", left)

    def drop(self, run_id: str | None, reason: Reason, *, before: int = 0) -> None:
        """Count a dropped event; `before` losses of the run have not been told yet.

        That the buffer is full is logged once, until everything has been sent again.
        """
        metrics.DROPPED.labels(reason).inc()
        with self._lock:
            self.dropped += 1
            if run_id is not None:
                self._lost[run_id] = self._lost.get(run_id, 0) + before + 1
                if len(self._lost) > _MAX_RUNS_WITH_LOSSES:
                    del self._lost[next(iter(self._lost))]
            overflow = reason == "buffer_full" and not self._overflowed_at
            if overflow:
                self._overflowed_at = self.dropped
        if overflow:
            log.warning("events are dropped: %d wait for Kafka, which is slow or away; `dropped` counts them", self._events)

    def losses_of(self, run_id: str) -> int:
        """Return the events that the run lost since it last told, and forget them: the next event tells."""
        if not self._lost:
            return 0
        with self._lock:
            return self._lost.pop(run_id, 0)

    def _remove(self, events: Sequence[WrittenEvent]) -> None:
        self._events -= len(events)
        self._bytes -= sum(len(event.value) for event in events)
