"""When what was processed is committed, and in which order: states, then offsets.

The states touched since the last commit are written once per commit, in slices between batches, so a state in the changelog
never holds an event whose decisions are not on their topic. Only when all of them are written are the batches done that had come
before, and their offsets committed.
"""

import asyncio
import time
from typing import Any

from faust.types import TP

from schemas.topics import Topics
from streams.processor.owned_runs import OwnedRuns
from streams.transport import Batch, StaleBatch

#: A commit is put off while there are fewer events to be done again after a crash (about 0.3 s of work), and so many commit
#: intervals at most. A state costs more than an event, and at a low load each run has an event or two in an interval.
EVENTS_WORTH_A_COMMIT = 10_000
INTERVALS_AT_MOST = 4

#: Runs whose states are written between two rounds of batches, or as many as there were events in the round: a commit then ends
#: before as many events have come again as it covers. And those at a time when there is nothing else to do.
RUNS_PER_WRITE = 100
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
        #: Batches that the commit under way covers, None when there is none, and the events since its last slice.
        self._covered: list[Batch] | None = None
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

    async def go_on(self) -> bool:
        """Go on with the commit under way, begin one when it is time; return whether more of it is left.

        Raises `StaleBatch` and `SendError`.
        """
        if self._covered is None:
            if self._are_offsets_under_way() or not self._is_due():
                return False
            self._begin()
        if await self._write_slice(max(RUNS_PER_WRITE, self._events_since_slice) if self._has_company else RUNS_AT_REST):
            return True
        self._end()
        # Batches need not wait for its answer; the next commit does.
        self._committing = asyncio.create_task(self._commit_offsets())
        return False

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
        while await self._write_slice(RUNS_AT_REST):
            pass
        self._end()

    def _begin(self) -> None:
        self._runs.begin_round()
        self._covered = [*(self._covered or ()), *self._pending]
        self._pending.clear()
        self._events = 0

    async def _write_slice(self, limit: int) -> bool:
        self._events_since_slice = 0
        return await self._runs.write_slice(limit, is_committed=self.is_committed, ensure_owned=self.ensure_owned)

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
