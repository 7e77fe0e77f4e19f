"""Topics that real workers judged, to be audited; and copies of them in which decisions were changed."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from schemas.decisions import DECISION_TYPE
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.audit.findings import Finding, Tally
from streams.audit.planning import Selection, plan
from streams.audit.verify import verify_partitions
from streams.connection import Connection
from tests.streams.processor.conftest import PARTITIONS, Lab, lab

__all__ = ["lab"]


@dataclass(frozen=True)
class Published:
    """A record of the decisions topic; `data` is None for anything but a decision."""

    partition: int
    key: bytes | None
    value: bytes
    timestamp: int

    @property
    def data(self) -> dict[str, Any] | None:
        body = orjson.loads(self.value)
        return body["data"] if body["type"] == DECISION_TYPE else None

    def with_data(self, **changes: Any) -> "Published":
        """The same record with other fields in its decision."""
        body = orjson.loads(self.value)
        body["data"] |= changes
        body["id"] = body["data"]["decision_id"]
        return replace(self, value=orjson.dumps(body))


Change = Callable[[list[Published]], list[Published]]


class Auditor:
    """Verifies the topics of some settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connection = Connection.from_settings(settings)

    async def verify(
        self, *, patience: float = 20.0, policy: PolicyDocument | None = None, **chosen: Any
    ) -> tuple[Tally, list[Finding]]:
        """Return the numbers of all partitions together, and the differences."""

        def work() -> tuple[Tally, list[Finding]]:
            tally, findings = Tally(), []
            for result in verify_partitions(plan(self.settings, Selection(**chosen), patience=patience, policy=policy)):
                tally.add(result.tally)
                findings += result.findings
            return tally, findings

        return await asyncio.to_thread(work)

    @asynccontextmanager
    async def _producer(self) -> Any:
        producer = AIOKafkaProducer(**self.connection.client_options())
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    async def send(self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Send records: partition, key, value."""
        async with self._producer() as producer:
            for partition, key, value in records:
                await producer.send_and_wait(topic, value, key=key, partition=partition)

    async def commit(self, ends: dict[TopicPartition, int]) -> None:
        """Commit offsets as the workers' group."""
        consumer = AIOKafkaConsumer(**self.connection.client_options(), group_id=self.settings.group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(list(ends))
            await consumer.commit(ends)
        finally:
            await consumer.stop()


class Forger:
    """Copies a lab's topics under other names, with changes among the decisions."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.copies = 0

    async def copy(self, change: Change = lambda records: records, *, times: Mapping[str, int] = MappingProxyType({})) -> Auditor:
        """Copy inputs as they are, decisions as `change` gives them back; all is committed by the same group.

        `times` are timestamps for all records of a topic.
        """
        self.copies += 1
        old = self.lab.settings.topics
        given = self.lab.settings.model_dump() | {"topic_prefix": f"copy{self.copies}.{old.prefix}"}
        forged = Lab(Settings.model_validate(given), self.lab.folder)
        await forged.create()
        new = forged.settings.topics
        auditor = Auditor(forged.settings)
        ends = {}
        async with auditor._producer() as producer:
            for topic, other in zip((*old.inputs, old.decisions), (*new.inputs, new.decisions), strict=True):
                records: list[Published] = []
                for partition in range(PARTITIONS):
                    found = await self.lab.records(topic, partition)
                    ends[TopicPartition(other, partition)] = len(found)
                    records += [Published(partition, one.key, one.value, one.timestamp) for one in found]
                if topic == old.decisions:
                    names = old.prefix.encode(), new.prefix.encode()
                    records = change([replace(one, value=one.value.replace(*names)) for one in records])
                sent = [
                    await producer.send(
                        other, one.value, key=one.key, partition=one.partition, timestamp_ms=times.get(topic, one.timestamp)
                    )
                    for one in records
                ]
                await asyncio.gather(*sent)
        await auditor.commit({tp: end for tp, end in ends.items() if tp.topic in new.inputs})
        return auditor


@pytest.fixture
def auditor(lab: Lab) -> Auditor:
    return Auditor(lab.settings)


@pytest.fixture
def forger(lab: Lab) -> Forger:
    return Forger(lab)


def policy(**loop_detection: Any) -> dict[str, Any]:
    return {"tools": {"loopDetection": {"enabled": True, **loop_detection}}}


def as_text(findings: Sequence[Finding]) -> str:
    return json.dumps([finding.to_json() for finding in findings], indent=1)
