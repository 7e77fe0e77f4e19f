"""Which stored runs have been idle for so long that they are to be forgotten."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from streams.detection import state_codec
from streams.processor.owned_runs import IsCommitted, OwnedRuns

#: Runs looked at between two batches: a few milliseconds.
RUNS_PER_SLICE = 2_000

#: Seconds between two passes over all runs, at most and at least; in between it is a tenth of the time to live.
LONGEST_PAUSE = 300.0
SHORTEST_PAUSE = 0.5


@dataclass(slots=True)
class Found:
    """Runs of a slice: idle ones, and ones that ended and left a stub (with their input offsets)."""

    partition: int
    idle: list[str] = field(default_factory=list)
    ended: list[tuple[str, tuple[int, int]]] = field(default_factory=list)


class RunExpiry:
    """Passes over the stored runs, now and then and in slices.

    The clock of a partition is the latest event time in it, never ahead of the worker's own, so that a gateway with a wrong clock
    cannot have all runs forgotten. A run whose last event is further from it than the time to live, ahead too, is idle; not when
    it had an event since the pass before (old events may be imported), and never before its input offsets are committed.
    """

    def __init__(self, *, run_ttl_ms: int) -> None:
        self.run_ttl_ms = run_ttl_ms
        self._pause = min(max(run_ttl_ms / 10_000, SHORTEST_PAUSE), LONGEST_PAUSE)
        self._clocks: dict[int, int] = {}
        self._marks: dict[int, tuple[int, int]] = {}
        self._queue: list[tuple[int, Iterator[bytes], tuple[int, int]]] = []
        self._next_pass = time.monotonic() + self._pause

    def take_over(self) -> None:
        """Begin anew with other partitions."""
        self._clocks.clear()
        self._marks.clear()
        self._queue.clear()

    def saw(self, partition: int, latest: int) -> None:
        """Move the clock of a partition on; `latest` is an event time in milliseconds."""
        limited = min(latest, int(time.time() * 1000))
        if limited > self._clocks.get(partition, 0):
            self._clocks[partition] = limited

    def begin_pass(self, runs: OwnedRuns, next_offsets: dict[int, tuple[int, int]]) -> None:
        """Begin a pass over the given partitions when it is time; `next_offsets` are those of their inputs now."""
        if self._queue or time.monotonic() < self._next_pass:
            return
        self._next_pass = time.monotonic() + self._pause
        for partition, offsets in next_offsets.items():
            if partition in self._marks:
                self._queue.append((partition, runs.keys(partition), self._marks[partition]))
            self._marks[partition] = offsets

    def next_slice(self, runs: OwnedRuns, is_committed: IsCommitted) -> Found | None:
        """Look at the next runs of the pass; None when it is over."""
        if not self._queue:
            return None
        partition, keys, mark = self._queue[0]
        found = Found(partition)
        looked_at = list(itertools.islice(keys, RUNS_PER_SLICE))
        if len(looked_at) < RUNS_PER_SLICE:
            self._queue.pop(0)
        clock = self._clocks.get(partition)
        for key in looked_at:
            stored = runs.stored(partition, key)
            run_id = key.decode()
            if stored is None or runs.is_touched(partition, run_id):
                continue
            head = state_codec.head(run_id, stored)
            tool_offset, compaction_offset = head.offsets
            if not is_committed(partition, head.offsets):
                continue
            if head.ended:
                found.ended.append((run_id, head.offsets))
                continue
            untouched = tool_offset < mark[0] and compaction_offset < mark[1]
            if untouched and clock is not None and abs(clock - head.last_time) > self.run_ttl_ms:
                found.idle.append(run_id)
        return found
