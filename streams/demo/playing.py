"""Play events through a broker and a worker, and show calls and verdicts as they come."""

import asyncio
import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from pathlib import Path

from schemas.events import ToolCallStarted, parse_event
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.demo.display import Display
from streams.demo.tally import Tally
from streams.gateway.decision_reader import PublishedDecision, read_decisions
from streams.intake.background import in_background
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 4

#: The detectors with their default thresholds: warnings from 10 calls, critical from 20, the circuit breaker from 30.
POLICY = {"tools": {"loopDetection": {"enabled": True}}}


async def play(
    events: Iterable[OutgoingEvent], *, settings: Settings, display: Display, pace: float, show_calls: bool = True
) -> Tally:
    """Publish events to fresh topics at `pace` calls per second (0: at once), show what happens and return the tally.

    The broker of the settings must have no topics of their prefix. Returns when every decision has been read. Raises
    `WorkerProcessError`, `aiokafka.errors.KafkaError` and what `events` raises.
    """
    with tempfile.TemporaryDirectory(prefix="loopwarden-") as folder:
        policy = Path(folder) / "policy.json"
        policy.write_text(json.dumps(POLICY))
        settings = settings.model_copy(
            update={"policy_file": policy, "data_dir": Path(folder) / "data", "store": "memory://", "commit_interval": 0.1}
        )
        await create_topics(
            Connection.from_settings(settings), settings.topics, partitions=PARTITIONS, max_event_bytes=settings.max_event_bytes
        )
        with WorkerProcess(settings, log_path=Path(folder) / "worker.log") as worker:
            played = _Played(settings=settings, display=display, worker=worker, show_calls=show_calls)
            await played.play(events, pace=pace)
        return played.tally


class _Played:
    def __init__(self, *, settings: Settings, display: Display, worker: WorkerProcess, show_calls: bool) -> None:
        self.tally = Tally(tool_calls=settings.topics.tool_calls)
        self._settings = settings
        self._display = display
        self._worker = worker
        self._show_calls = show_calls
        self._ends: Counter[tuple[str, int]] = Counter()
        #: offset of the decision to read next, by partition
        self._next: Counter[int] = Counter()

    async def play(self, events: Iterable[OutgoingEvent], *, pace: float) -> None:
        follower = asyncio.create_task(self._follow())
        try:
            await publish_events(
                Connection.from_settings(self._settings),
                self._paced(in_background(events), pace=pace),
                topics=self._settings.topics,
                max_event_bytes=self._settings.max_event_bytes,
            )
            await self._until_judged()
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower
        # Everything is decided: what the follower has not got to yet lies before the end.
        async for published in read_decisions(Connection.from_settings(self._settings), self._settings.topics):
            self._take(published)

    async def _paced(self, events: AsyncIterable[OutgoingEvent], *, pace: float) -> AsyncIterator[OutgoingEvent]:
        clock = asyncio.get_running_loop().time
        start, calls, waited = 0.0, 0, False
        async for event in events:
            _, data = parse_event(event.value, key=event.key, max_bytes=self._settings.max_event_bytes)
            if isinstance(data, ToolCallStarted):
                if pace and calls and (early := start + calls / pace - clock()) > 0:
                    await asyncio.sleep(early)
                calls += 1
            place = (event.topic, partition_of(event.run_id, PARTITIONS))
            if isinstance(data, ToolCallStarted):
                number = self.tally.add_call(event.run_id, self._ends[place])
                if self._show_calls:
                    self._display.call(number, data)
            elif event.topic == self._settings.topics.compactions and self._show_calls:
                self._display.compaction(event.run_id)
            self._ends[place] += 1
            yield event
            if not waited:  # the worker takes a moment to come up: the pace begins when the first event has been judged
                await self._until_judged()
                start, waited = clock(), True

    async def _until_judged(self) -> None:
        ends = [(topic, partition, end) for (topic, partition), end in self._ends.items()]
        if ends:
            await self._worker.wait_until_committed(ends, patience=600)

    async def _follow(self) -> None:
        found = read_decisions(Connection.from_settings(self._settings), self._settings.topics, follow=True)
        async with aclosing(found):
            async for published in found:
                self._take(published)

    def _take(self, published: PublishedDecision) -> None:
        origin = published.origin
        if origin.offset < self._next[origin.partition]:
            return
        self._next[origin.partition] = origin.offset + 1
        if self.tally.add_decision(published.decision):
            self._display.verdict(published.decision)
