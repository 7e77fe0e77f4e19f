"""Writing records in batches to one partition, acknowledged."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import errors
from faust.transport.drivers import aiokafka as driver

#: Query parameter of the broker URL that switches the idempotent producer on (set by `batch_app_settings`).
IDEMPOTENCE = "idempotence"


class SendError(RuntimeError):
    """Records could not be written; the message names topic and partition, `__cause__` is Kafka's error."""


class RecordTooLargeError(SendError):
    """A record, or a batch of them, exceeds a size limit."""


class ProducerRecord(NamedTuple):
    """A record to write; `timestamp_ms` None means now, `value` None deletes the key in a compacted topic."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Where records were appended; `last - first + 1 > count` when others were appended in between."""

    first: int
    last: int
    count: int


class Producer(driver.Producer):
    """Faust's producer, with acknowledgement by all in-sync replicas and idempotence where the broker can do it."""

    def _settings_extra(self) -> dict[str, Any]:
        idempotent = any(url.query.get(IDEMPOTENCE) == "on" for url in self.transport.url)
        return {**super()._settings_extra(), "acks": "all", "enable_idempotence": idempotent}


async def send_batches(app: Any, topic: str, partition: int, records: Iterable[ProducerRecord]) -> Written | None:
    """Write records to one partition, in order, and return when all are acknowledged; None when there were none.

    No partitioner, no task and no future per record. Raises `RecordTooLargeError` (before anything is sent when the
    record exceeds `producer_max_request_size`) and `SendError` when the broker did not acknowledge within
    `producer_request_timeout`; some of the records may then be written all the same.
    """
    client = app.producer._ensure_producer()
    batches = _pack(client, records, limit=app.conf.producer_max_request_size, place=f"{topic}[{partition}]")
    futures = []
    try:
        for batch in batches:
            # Waits while an earlier batch of this partition is still queued, so no more than two of them pile up.
            futures.append(await client.send_batch(batch, topic, partition=partition))  # noqa: PERF401  (each needs the one before)
    except (errors.KafkaError, AssertionError) as error:  # aiokafka asserts that the partition exists
        await asyncio.gather(*futures, return_exceptions=True)
        raise _explain(error, topic, partition, batches[len(futures)]) from error
    results: list[Any] = await asyncio.gather(*futures, return_exceptions=True)
    for batch, result in zip(batches, results, strict=True):
        if isinstance(result, BaseException):
            raise _explain(result, topic, partition, batch) from result
    if not results:
        return None
    count = sum(batch.record_count() for batch in batches)
    return Written(results[0].offset, results[-1].offset + batches[-1].record_count() - 1, count)


def _pack(client: Any, records: Iterable[ProducerRecord], *, limit: int, place: str) -> list[Any]:
    now = int(time.time() * 1000)
    batches: list[Any] = []
    current = None
    for record in records:
        timestamp = now if record.timestamp_ms is None else record.timestamp_ms
        fields = {"key": record.key, "value": record.value, "timestamp": timestamp, "headers": list(record.headers)}
        appended = None if current is None else current.append(**fields)
        if appended is None:  # full: start the next one, which takes its first record whatever its size
            current = client.create_batch()
            batches.append(current)
            appended = current.append(**fields)
        if appended.size > limit:
            raise RecordTooLargeError(
                f"{place}: a record of {appended.size} bytes exceeds producer_max_request_size, {limit} bytes;"
                " raise that and the topic's max.message.bytes, or make the record smaller"
            )
    return batches


def _explain(error: BaseException, topic: str, partition: int, batch: Any) -> SendError:
    place, size, count = f"{topic}[{partition}]", batch.size(), batch.record_count()
    if isinstance(error, errors.MessageSizeTooLargeError):
        return RecordTooLargeError(
            f"{place}: the broker refuses a batch of {count} records, {size} bytes, more than its max.message.bytes;"
            " raise that setting of the topic, or lower producer_max_batch_size below it"
        )
    if isinstance(error, AssertionError):
        return SendError(f"{place}: the topic has no such partition ({error})")
    return SendError(f"{place}: {count} records, {size} bytes, were not acknowledged: {error!r}")
