"""When what was processed is committed, and in which order: states, then offsets.

The states touched since the last commit are written once per commit, in slices between batches, as they are when all decisions
are acknowledged: a state in the changelog never holds an event whose decisions are not on their topic. Only when all of them are
written are the batches done that had come before, and their offsets committed.
"""

import asyncio
import time
from typing import Any

from faust.types import TP

from schemas.topics import Topics
from streams.processor.owned_runs import OwnedRuns, StateSlice
from streams.transport import Batch, StaleBatch

#: A commit is put off while there are fewer events to be done again after a crash (about 0.3 s of work), and so many commit
#: intervals at most. A state costs more than an event, and at a low load each run has an event or two in an interval.
EVENTS_WORTH_A_COMMIT = 10_000
INTERVALS_AT_MOST = 4

#: Runs whose states are written between two rounds of batches at least, one or two milliseconds of work, and how many of them for
#: each event that came since the slice before at most. A commit is through before half as many events have come as it covers;
#: with less, those that are touched meanwhile would make each commit larger than the one before.
RUNS_PER_WRITE = 50
RUNS_PER_EVENT = 2.0

#: Runs whose states are written at a time when there is nothing else to do.
RUNS_AT_REST = 1_000


class Commits:
    """The batches that are processed and not committed; `interval` is the seconds between two commits under load."""

    def __init__(self, *, app: Any, runs: OwnedRuns, topics: Topics, interval: float) -> None:
        self._app = app
        self._runs = runs
        self._topics = topics
        self._interval = interval
        self._pending: list[Batch] = []
        self._events = 0
        #: Batches that the commit under way covers, None when there is none; its runs for each event that comes, and the events
        #: since its last slice.
        self._covered: list[Batch] | None = None
        self._runs_per_event = RUNS_PER_EVENT
        self._events_since_slice = 0
        self._committing: asyncio.Task[None] | None = None
        #: The oldest batch of each input partition that is not done.
        self._oldest: dict[tuple[str, int], Batch] = {}
        self._committed_at = time.monotonic()
        self._added_at = self._committed_at

    def add(self, batch: Batch, events: int) -> None:
        """Have a batch committed whose decisions are acknowledged."""
        self._pending.append(batch)
        self._oldest.setdefault((batch.topic, batch.partition), batch)
        self._events += events
        self._events_since_slice += events
        self._added_at = time.monotonic()

    def forget(self) -> None:
        """Forget batches that will be delivered again."""
        self._pending.clear()
        self._oldest.clear()
        self._covered = None
        self._events = 0

    @property
    def waiting(self) -> bool:
        """Whether any batch is not committed."""
        return bool(self._pending) or self._covered is not None

    def next_slice(self) -> StateSlice | None:
        """Return states to be written now, of the commit under way or of one that is due; None when there is nothing to do.

        They are taken before batches are applied and written together with what these bring, in one request.
        """
        if self._covered is None:
            if self._are_offsets_under_way() or not self._is_due():
                return None
            self._begin()
        return self._take(self._size_of_slice())

    async def write(self, states: StateSlice) -> bool:
        """Write a slice, and end the commit after the last one; return whether more of it is left.

        Raises `StaleBatch` and `SendError`.
        """
        self.ensure_owned()
        await self.put(states)
        return self.wrote(states)

    async def put(self, states: StateSlice) -> None:
        """Write a slice, without a look at the lease, which the caller has just had."""
        await self._runs.put(states)

    def wrote(self, states: StateSlice) -> bool:
        """End the commit when the slice that was written was its last; return whether more of it is left."""
        if not states.is_last:
            return True
        self._end()
        # Batches need not wait for its answer; the next commit does.
        self._committing = asyncio.create_task(self._commit_offsets())
        return False

    def _size_of_slice(self) -> int:
        if not self._has_company:
            return RUNS_AT_REST
        return max(RUNS_PER_WRITE, round(self._runs_per_event * self._events_since_slice))

    def _are_offsets_under_way(self) -> bool:
        committing = self._committing
        if committing is None or not committing.done():
            return committing is not None
        self._committing = None
        committing.result()
        return False

    @property
    def _has_company(self) -> bool:
        """Whether more may come for the same runs."""
        return time.monotonic() - self._added_at < self._interval

    def _is_due(self) -> bool:
        since = time.monotonic() - self._committed_at
        if since < self._interval:
            return False
        return not self._has_company or self._events >= EVENTS_WORTH_A_COMMIT or since >= self._interval * INTERVALS_AT_MOST

    async def commit(self) -> None:
        """Write all states, then commit the offsets of the batches in them."""
        await self.write_states()
        if self._committing is not None:
            await self._committing
        await self._commit_offsets()

    async def write_states(self) -> None:
        """Write all states; the batches in them are done, their offsets not committed yet."""
        if not self.waiting and not self._runs.unwritten:
            return
        self._begin()
        is_last = False
        while not is_last:
            states = self._take(RUNS_AT_REST)
            self.ensure_owned()
            await self.put(states)
            is_last = states.is_last
        self._end()

    def _begin(self) -> None:
        runs = self._runs.begin_round()
        self._runs_per_event = min(RUNS_PER_EVENT, RUNS_PER_EVENT * runs / max(self._events, 1))
        self._events_since_slice = 0
        self._covered = [*(self._covered or ()), *self._pending]
        self._pending.clear()
        self._events = 0

    def _take(self, limit: int) -> StateSlice:
        self._events_since_slice = 0
        return self._runs.take_slice(limit, is_committed=self.is_committed)

    def _end(self) -> None:
        self.ensure_owned()
        for batch in self._covered or ():
            batch.done()
        self._covered = None
        self._oldest.clear()
        for batch in self._pending:
            self._oldest.setdefault((batch.topic, batch.partition), batch)

    async def _commit_offsets(self) -> None:
        await self._app.consumer.commit()
        self._committed_at = time.monotonic()

    def ensure_owned(self) -> None:
        """Raise `StaleBatch` when the partitions may not be ours any more.

        The oldest batch of a partition speaks for those after it: what makes one void makes all void that were delivered by then.
        """
        for batch in self._oldest.values():
            batch.ensure_owned()
        if not self._app.consumer.lease.held:
            raise StaleBatch("no heartbeat was answered in time")

    def is_committed(self, partition: int, offsets: tuple[int, int]) -> bool:
        """Whether input offsets (tool calls, compactions) of a partition are committed."""
        committed = self._app.consumer.committed_offset
        of_topics = zip(self._topics.inputs, offsets, strict=True)
        return all(offset < committed(TP(topic, partition)) for topic, offset in of_topics if offset >= 0)
