"""Publish policies, and read what has been published."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from schemas.cloudevents import InvalidEventError
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from schemas.policy_records import PublishedPolicies, policy_key, policy_record, read_policy_record
from schemas.topics import Topics
from streams.connection import Connection
from streams.topics_admin import partition_counts

#: Milliseconds that a fetch may wait at the broker.
_FETCH_MAX_WAIT_MS = 100


class PolicyNotInForceError(RuntimeError):
    """A published policy is not in force after the time that was given for it; the message names the partitions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPolicy:
    """A record of the policies topic: a policy, a withdrawal (no policy), or what is wrong with it.

    `time` is the record's, in milliseconds.
    """

    offset: int
    time: int
    key: str
    policy: PolicyDocument | None = None
    problem: str | None = None


async def publish_policy(
    connection: Connection, topics: Topics, policy: PolicyDocument | None, *, key: str, source: str = "loopwarden/cli"
) -> int:
    """Publish a policy under a key (an agent id, or `*`), None to withdraw it; return the offset of the record.

    Raises `InvalidEventError` when the policy of one agent has entries for agents, `TopicsError` without the topic and
    `aiokafka.errors.KafkaError` when the broker does not take it.
    """
    await partition_counts(connection, [topics.policies])
    policy_key(key.encode())
    value = None if policy is None else policy_record(key, policy, source=source, time=int(time.time() * 1000))
    producer = AIOKafkaProducer(**connection.client_options(), acks="all")
    await producer.start()
    try:
        written = await producer.send_and_wait(topics.policies, value, key=key.encode(), partition=0)
    finally:
        await producer.stop()
    return int(written.offset)


async def read_policies(connection: Connection, topics: Topics) -> list[PublishedPolicy]:
    """Return the records that are still on the policies topic, in order.

    Raises `TopicsError` without the topic.
    """
    await partition_counts(connection, [topics.policies])
    place = TopicPartition(topics.policies, 0)
    consumer = connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS)
    found: list[PublishedPolicy] = []
    try:
        await consumer.start()
        consumer.assign([place])
        while (end := consumer.highwater(place)) is None or await consumer.position(place) < end:
            fetched = await consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            found += [_read(record) for record in fetched.get(place, ())]
    finally:
        await consumer.stop()
    return found


def _read(record: Any) -> PublishedPolicy:
    key = (record.key or b"").decode(errors="replace")
    where = {"offset": record.offset, "time": record.timestamp, "key": key}
    if record.value is None:
        return PublishedPolicy(**where)
    try:
        return PublishedPolicy(**where, policy=read_policy_record(record.key, record.value, record.headers)[1])
    except InvalidEventError as error:
        return PublishedPolicy(**where, problem=f"{error.code}: {error}")


def together(records: list[PublishedPolicy], *, fallback: PolicyDocument) -> PublishedPolicies:
    """Return what records of the topic say together, in their order; `fallback` is the policy file of the workers."""
    policies = PublishedPolicies(fallback)
    for record in records:
        if record.problem is None:
            policies.take(record.key, record.policy)
    return policies


class MarkerWatch:
    """Waits until the workers have put a policy into force in every partition.

    Made before the policy is published, so that no marker is missed:

        async with MarkerWatch(connection, topics) as watch:
            await publish_policy(...)
            await watch.until_in_force(version)
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = connection
        self._topic = topics.decisions
        self._consumer = connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS)
        self._versions: dict[int, str | None] = {}

    async def __aenter__(self) -> "MarkerWatch":
        count = (await partition_counts(self._connection, [self._topic]))[self._topic]
        await self._consumer.start()
        try:
            places = [TopicPartition(self._topic, number) for number in range(count)]
            self._versions = dict.fromkeys(range(count))
            self._consumer.assign(places)
            while any(self._consumer.highwater(place) is None for place in places):
                await self._consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            for place in places:
                self._consumer.seek(place, self._consumer.highwater(place))
        except BaseException:
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def until_in_force(self, version: str, *, patience: float = 60.0) -> None:
        """Return when the latest marker of every partition names the version.

        Raises `PolicyNotInForceError` after `patience` seconds.
        """
        try:
            async with asyncio.timeout(patience):
                while not all(seen == version for seen in self._versions.values()):
                    for records in (await self._consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)).values():
                        for record in records:
                            self._take(record)
        except TimeoutError:
            missing = ", ".join(str(number) for number, seen in self._versions.items() if seen != version)
            raise PolicyNotInForceError(
                f"policy {version} is published, but after {patience:g} s not in force in partition {missing}: "
                "is a worker running, and does it log that it read the policy?"
            ) from None

    def _take(self, record: Any) -> None:
        if record.key is not None:  # a decision
            return
        try:
            self._versions[record.partition] = PolicyApplied.from_record(record.value or b"", record.headers).policy_version
        except InvalidEventError:
            return
