"""What the tests of the gateway client make: decisions, topics, workers, events."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from schemas.decisions import AsOf, Decision, Origin, Target
from schemas.events import RunEvent, parse_event
from schemas.fingerprints import args_hash
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.gateway.checking import RunChecker
from streams.gateway.event_writer import WrittenEvent
from streams.gateway.reporting import RunReporter
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 2
DETECTORS_ON: Mapping[str, Any] = {"tools": {"loopDetection": {"enabled": True}}}

#: Seconds that anything may take on a machine under load.
PATIENCE = 60.0


def decision(
    action: str = "block",
    *,
    run_id: str = "r",
    tool: str | None = "read",
    params: Any = None,
    scope: str = "call",
    offset: int = 1,
    partition: int = 0,
    number: int | None = None,
    **fields: Any,
) -> Decision:
    """Make a decision; `number` is its id (the offset by default), so that equal numbers are copies."""
    target = Target(
        scope=scope,
        tool=None if scope == "run" else tool,
        args_hash=args_hash(params) if scope == "call" else None,
    )
    place = {"topic": "agent.tool-calls.v1", "partition": partition}
    return Decision(
        **{
            "decision_id": f"{offset if number is None else number:016x}{0:016x}",
            "run_id": run_id,
            "action": action,
            "level": "warning" if action == "warn" else "critical",
            "detector": "generic_repeat",
            "target": target,
            "count": 20,
            "message": f"{tool} has been called 20 times.",
            "warning_key": "k",
            "policy_version": "p",
            "engine_version": "1",
            "since": Origin(**place, offset=0),
            "as_of": AsOf(**place, offset=offset, sequence=offset, time=0),
            "decided_at": 0,
            **fields,
        }
    )


def fold(gate: RunChecker, *decisions: Decision) -> None:
    """Let a gate that reads no topic know decisions."""
    for item in decisions:
        gate._map.fold(item)


def unsent(publisher: RunReporter) -> list[RunEvent]:
    """Take what a publisher that was not started has written."""
    return [parsed(event) for event in publisher._outbox.take()]


def parsed(event: WrittenEvent) -> RunEvent:
    """Read an event as a worker does."""
    return parse_event(event.value, key=event.run_id.encode(), max_bytes=1 << 20)[1]


class Lab:
    """Topics, group and workers of one test."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.topics = settings.topics
        self.folder = folder
        self._workers: list[WorkerProcess] = []

    async def create(self) -> None:
        """Create the topics."""
        await create_topics(Connection.from_settings(self.settings), self.topics, partitions=PARTITIONS)

    def worker(self, policy: Mapping[str, Any] = DETECTORS_ON) -> WorkerProcess:
        """Start a worker; it is stopped at the end of the test at the latest."""
        path = self.folder / "policy.json"
        path.write_text(json.dumps(policy))
        worker = WorkerProcess(self.settings.model_copy(update={"policy_file": path}), log_path=self.folder / "worker.log")
        worker.__enter__()
        self._workers.append(worker)
        return worker

    def stop_workers(self) -> None:
        """Stop all workers that still run."""
        for worker in self._workers:
            worker.stop()

    async def judged(self, worker: WorkerProcess, *publishers: RunReporter) -> None:
        """Wait until what publishers have sent is decided and committed."""
        ends: dict[tuple[str, int], int] = {}
        for publisher in publishers:
            for place, end in publisher.ends.items():
                ends[place] = max(end, ends.get(place, 0))
        await worker.wait_until_committed([(*place, end) for place, end in ends.items()], patience=PATIENCE)

    async def decide(self, *decisions: Decision) -> None:
        """Publish decisions as a worker does."""
        await self.send(self.topics.decisions, *((d.run_id, d.to_record(source="/tests")) for d in decisions))

    async def send(self, topic: str, *records: tuple[str, bytes]) -> None:
        """Publish records to the partitions of their runs."""
        producer = AIOKafkaProducer(bootstrap_servers=self.settings.bootstrap_servers)
        await producer.start()
        try:
            count = len(await producer.partitions_for(topic))
            for run_id, value in records:
                await producer.send_and_wait(topic, value, key=run_id.encode(), partition=partition_of(run_id, count))
        finally:
            await producer.stop()

    async def records(self, topic: str) -> list[Any]:
        """Read what is in a topic."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=100
        )
        await consumer.start()
        try:
            places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            consumer.assign(places)
            found: list[Any] = []
            while any(
                [
                    consumer.highwater(place) is None or await consumer.position(place) < consumer.highwater(place)
                    for place in places
                ]
            ):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found += records
            return found
        finally:
            await consumer.stop()

    async def events(self) -> list[Any]:
        """Read the tool-call events that are on their topic, in order within each run, as (envelope, data)."""
        records = await self.records(self.topics.tool_calls)
        return [parse_event(record.value, record.headers, key=record.key, max_bytes=1 << 20) for record in records]


def lab_settings(traits: Any, name: str, folder: Path) -> Settings:
    """Return the settings of a test on a broker."""
    return Settings(
        bootstrap_servers=traits.bootstrap_servers,
        topic_prefix=f"{name}.",
        group=name,
        session_timeout=traits.session_timeout,
        heartbeat_interval=traits.heartbeat_interval,
        idempotent_producer=traits.idempotent_producer,
        commit_interval=0.1,
        data_dir=folder / "data",
    )
