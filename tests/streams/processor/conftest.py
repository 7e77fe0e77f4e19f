"""Topics, workers and runs for the tests of the worker, each test with names of its own."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from schemas import cloudevents
from schemas.decisions import Decision
from schemas.events import CompactionCompleted, RunEnded, RunEvent, ToolCallFinished, ToolCallStarted, parse_event
from schemas.policy import read_policy
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.detection.engine import apply
from streams.detection.facts import RunPartition, facts_of
from streams.detection.run_state import RunState
from streams.gateway.decision_reader import read_decisions
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 2
DETECTORS_ON: Mapping[str, Any] = {"tools": {"loopDetection": {"enabled": True}}}
NOTHING: Any = object()


class Traits(Protocol):
    """What is used of `broker_traits`."""

    bootstrap_servers: str
    session_timeout: float
    heartbeat_interval: float
    idempotent_producer: bool


class Run:
    """Makes the events of one run, numbered in order."""

    def __init__(self, lab: "Lab", run_id: str) -> None:
        self.run_id = run_id
        self._lab = lab
        self._sequence = 0
        #: milliseconds that its events come later than those of other runs
        self.clock = 0

    def event(self, model: type[RunEvent], **data: Any) -> OutgoingEvent:
        """Make the run's next event."""
        self._sequence += 1
        topics = self._lab.settings.topics
        value = cloudevents.structured(
            event_type=model.event_type(),
            source="/tests",
            event_id=f"{self.run_id}:{self._sequence}",
            run_id=self.run_id,
            data={"run_id": self.run_id, **data},
            time=1_790_000_000_000 + self.clock + self._sequence,
            sequence=self._sequence,
        )
        topic = topics.compactions if model is CompactionCompleted else topics.tool_calls
        return OutgoingEvent(topic=topic, key=self.run_id.encode(), value=value, run_id=self.run_id, sequence=self._sequence)

    def call(self, tool: str, params: Any, result: Any = NOTHING, **data: Any) -> list[OutgoingEvent]:
        """Make a call that went ahead and, when a result is given, its end."""
        shared = {"tool": tool, "params": params, **data}
        started = self.event(ToolCallStarted, **shared)
        return [started] if result is NOTHING else [started, self.event(ToolCallFinished, **shared, result=result)]

    def loop(self, calls: int, *, tool: str = "read", result: Any = "same", **data: Any) -> list[OutgoingEvent]:
        """Make equal calls with equal results."""
        return [event for _ in range(calls) for event in self.call(tool, {"path": "a.txt"}, result, **data)]

    def ended(self) -> list[OutgoingEvent]:
        """Make the end of the run."""
        return [self.event(RunEnded, status="done")]


class Lab:
    """Topics, group and workers of one test."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.ends: Counter[tuple[str, int]] = Counter()
        self._workers: list[WorkerProcess] = []

    async def create(self, *, max_event_bytes: int | None = None) -> None:
        """Create the topics."""
        connection = Connection.from_settings(self.settings)
        await create_topics(connection, self.settings.topics, partitions=PARTITIONS, max_event_bytes=max_event_bytes)

    def run(self, name: str = "run") -> Run:
        """Begin a run."""
        return Run(self, name)

    def policy_file(self, policy: Mapping[str, Any]) -> Path:
        """Write a policy file that no worker has yet."""
        path = self.folder / f"policy-{len(list(self.folder.glob('policy-*')))}.json"
        path.write_text(json.dumps(policy))
        return path

    def worker(self, policy: Mapping[str, Any] = DETECTORS_ON, **changes: Any) -> WorkerProcess:
        """Start a worker; it is stopped at the end of the test at the latest."""
        settings = self.settings.model_copy(update={"policy_file": self.policy_file(policy), **changes})
        worker = WorkerProcess(settings, log_path=self.folder / "worker.log")
        worker.__enter__()
        self._workers.append(worker)
        return worker

    def stop_workers(self) -> None:
        """Stop all workers that still run."""
        for worker in self._workers:
            worker.stop()

    async def publish(self, events: Sequence[OutgoingEvent]) -> None:
        """Publish events of runs."""
        await publish_events(Connection.from_settings(self.settings), events, topics=self.settings.topics)
        for event in events:
            self.ends[event.topic, partition_of(event.run_id, PARTITIONS)] += 1

    async def committed(self, worker: WorkerProcess) -> None:
        """Wait until all that was published is decided and committed."""
        await worker.wait_until_committed([(topic, partition, end) for (topic, partition), end in self.ends.items()], patience=30)

    async def decisions(self) -> list[Decision]:
        """Read all decisions so far, in order within each run, also those that were published twice."""
        return [item.decision async for item in read_decisions(Connection.from_settings(self.settings), self.settings.topics)]

    async def decision(self, wanted: Callable[[Decision], bool]) -> Decision:
        """Wait for a decision."""
        async with (
            asyncio.timeout(30),
            aclosing(read_decisions(Connection.from_settings(self.settings), self.settings.topics, follow=True)) as published,
        ):
            async for item in published:
                if wanted(item.decision):
                    return item.decision
        raise AssertionError("following a topic does not end")

    async def records(self, topic: str, partition: int) -> list[ConsumerRecord]:
        """Read what is in a partition."""
        place = TopicPartition(topic, partition)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=100
        )
        await consumer.start()
        try:
            consumer.assign([place])
            found: list[ConsumerRecord] = []
            while consumer.highwater(place) is None or await consumer.position(place) < consumer.highwater(place):
                found += (await consumer.getmany(timeout_ms=100)).get(place, [])
            return found
        finally:
            await consumer.stop()

    def engine_alone(self, events: Iterable[OutgoingEvent], policy: Mapping[str, Any] = DETECTORS_ON) -> list[Decision]:
        """Judge events by the engine, at the offsets that they have when they are the first in their topics."""
        document = read_policy(self.policy_file(policy))
        states: dict[str, RunState] = {}
        offsets: Counter[tuple[str, int]] = Counter()
        decisions: list[Decision] = []
        for event in events:
            number = partition_of(event.run_id, PARTITIONS)
            parsed, data = parse_event(event.value, key=event.key, max_bytes=1 << 20)
            home = RunPartition(self.settings.topics.tool_calls, number)
            facts = facts_of(parsed, data, partition=home, offset=offsets[event.topic, number], timestamp=0)
            offsets[event.topic, number] += 1
            made = apply(states.setdefault(event.run_id, RunState(event.run_id)), facts, document).decisions
            decisions += [decision.as_read() for decision in made]
        return decisions


@pytest.fixture
def lab(broker_traits: Traits, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Lab]:
    """Names, settings and workers of this test; the topics are made by `create`."""
    name = unique_name("worker")
    settings = Settings(
        bootstrap_servers=broker_traits.bootstrap_servers,
        topic_prefix=f"{name}.",
        group=name,
        session_timeout=broker_traits.session_timeout,
        heartbeat_interval=broker_traits.heartbeat_interval,
        idempotent_producer=broker_traits.idempotent_producer,
        commit_interval=0.1,
        data_dir=tmp_path / "data",
    )
    made = Lab(settings, tmp_path)
    yield made
    made.stop_workers()
