"""Follows the policies topic and says which policy is wanted."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas.cloudevents import InvalidEventError
from schemas.policy_records import PublishedPolicies, policy_key, read_policy_record
from streams.connection import Connection
from streams.fetch_pace import FetchPace

#: Milliseconds that a fetch may wait at the broker, once the first ones, which a worker that starts waits for, were answered.
_FETCH_MAX_WAIT_MS = 250

#: Milliseconds between two looks at what has been fetched, as long as the end is not reached.
_LOOK_MS = 20

#: Bad records that wait for their dead letter. More are not to be expected of operators; the oldest go first.
_MAX_BAD = 1_000

#: Seconds until the broker is asked again when it did not answer.
_PAUSE_AFTER_ERROR = 1.0

log = structlog.get_logger()

OnPolicies = Callable[[PublishedPolicies], Awaitable[None]]
DeadLetter = Callable[[Any, InvalidEventError], Awaitable[None]]


class PolicyFeed:
    """Reads the policies topic from its beginning and follows it.

    `on_policies` is told what has been published so far when the topic has been read once, and after each further record.

    Every worker reads the whole topic; `writes_dead_letters` says whether this one is to send bad records to the dead-letter
    topic. How far that has been done is committed under a group of its own.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        group: str,
        policies: PublishedPolicies,
        on_policies: OnPolicies,
        dead_letter: DeadLetter,
        writes_dead_letters: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._partition = TopicPartition(topic, 0)
        self._group = group
        self._policies = policies
        self._on_policies = on_policies
        self._dead_letter = dead_letter
        self._writes_dead_letters = writes_dead_letters
        self._bad: deque[tuple[Any, InvalidEventError]] = deque(maxlen=_MAX_BAD)

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        consumer = self._connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS, group=self._group)
        try:
            await self._start(consumer)
            FetchPace(consumer._fetcher, idle_wait_ms=_FETCH_MAX_WAIT_MS)
            consumer.assign([self._partition])
            await consumer.seek_to_beginning(self._partition)
            await self._follow(consumer)
        finally:
            await consumer.stop()

    async def _start(self, consumer: Any) -> None:
        while True:
            try:
                await consumer.start()
            except KafkaError as error:
                log.warning("the policies topic cannot be read yet", topic=self._partition.topic, reason=repr(error))
                await asyncio.sleep(_PAUSE_AFTER_ERROR)
            else:
                return

    async def _follow(self, consumer: Any) -> None:
        end: int | None = None
        caught_up = False
        while True:
            fetched = await consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS if caught_up else _LOOK_MS)
            records = fetched.get(self._partition, ())
            for record in records:
                self._take(record, caught_up=caught_up)
            # The high watermark of a fetch: the embedded broker's answer to "latest" is wrong.
            end = consumer.highwater(self._partition) if end is None else end
            if not caught_up and end is not None and await consumer.position(self._partition) >= end:
                caught_up = True
                self._tell_of_unreadable()
                await self._on_policies(self._policies)
            elif caught_up and records:
                await self._on_policies(self._policies)
            if self._bad and self._writes_dead_letters():
                await self._write_dead_letters(consumer)

    def _take(self, record: Any, *, caught_up: bool) -> None:
        place = f"{record.topic}[{record.partition}]@{record.offset}"
        try:
            if record.value is None:
                key, policy = policy_key(record.key), None
            else:
                key, policy = read_policy_record(record.key, record.value, record.headers)
        except InvalidEventError as error:
            log.error(  # noqa: TRY400  (what is wrong is in the reason; no trace of ours says more)
                "policy refused, the one before stays in force", at=place, code=error.code, reason=str(error)
            )
            self._bad.append((record, error))
            # What comes later than the others was never preceded by a good record that is gone now.
            if not caught_up and (name := _readable_key(record.key)) is not None and name not in self._policies.by_key:
                self._policies.unreadable.add(name)
            return
        self._policies.take(key, policy)
        log.info("policy read", at=place, key=key, policy_version=None if policy is None else policy.version)

    def _tell_of_unreadable(self) -> None:
        for key in sorted(self._policies.unreadable):
            log.error("the only policy of this key is bad: what was in force stays; publish or withdraw one", key=key)

    async def _write_dead_letters(self, consumer: Any) -> None:
        try:
            done = await consumer.committed(self._partition) or 0
            while self._bad:
                record, error = self._bad[0]
                if record.offset >= done:
                    await self._dead_letter(record, error)
                    await consumer.commit({self._partition: record.offset + 1})
                self._bad.popleft()
        except KafkaError as error:
            log.warning("dead letters of the policies topic put off", reason=repr(error))
            await asyncio.sleep(_PAUSE_AFTER_ERROR)


def _readable_key(key: bytes | None) -> str | None:
    try:
        return policy_key(key)
    except InvalidEventError:
        return None
