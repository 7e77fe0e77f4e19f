"""Read the decisions topic from its beginning, without a consumer group."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from aiokafka import TopicPartition

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision, Origin
from schemas.topics import Topics
from streams.connection import Connection
from streams.fetch_pace import FetchPace
from streams.permissions import Operation
from streams.topics_admin import partition_counts

#: Milliseconds that a fetch may wait at the broker: a fetch that waits on idle partitions holds up the busy ones.
_FETCH_MAX_WAIT_MS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedDecision:
    """A decision and the record it was read from."""

    origin: Origin
    decision: Decision


async def read_decisions(
    connection: Connection,
    topics: Topics,
    *,
    follow: bool = False,
    from_beginning: bool = True,
    on_invalid: Callable[[Origin, InvalidEventError], None] = lambda origin, error: None,
) -> AsyncGenerator[PublishedDecision]:
    """Yield the decisions of all partitions, in order within each.

    Without `follow` it ends at the end that each partition had when it was first read. Without `from_beginning` only what comes
    later is given. Other records of the topic are skipped; `on_invalid` is told of those that should be decisions but cannot be
    read. Raises `TopicsError` when the topic is missing, and `aiokafka.errors.KafkaError` when the broker cannot be reached.
    """
    count = (await partition_counts(connection, [topics.decisions], operation=Operation.READ))[topics.decisions]
    partitions = [TopicPartition(topics.decisions, number) for number in range(count)]
    consumer = connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS)
    ends: dict[TopicPartition, int] = {}
    try:
        await consumer.start()
        FetchPace(consumer._fetcher, idle_wait_ms=_FETCH_MAX_WAIT_MS, company_bytes=1)
        consumer.assign(partitions)
        while True:
            fetched = await consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            for partition in partitions:
                # The high watermark of a fetch: Tansu 0.6 answers ListOffsets with the first offset of the last batch.
                if partition not in ends and (end := consumer.highwater(partition)) is not None:
                    ends[partition] = end
                    if not from_beginning:
                        consumer.seek(partition, end)
            for partition, records in fetched.items():
                for record in records:
                    # ends has the partition: what was fetched came with a high watermark
                    at_start = record.offset < ends[partition]
                    if (at_start and not from_beginning) or (not at_start and not follow):
                        continue
                    origin = Origin(topic=record.topic, partition=record.partition, offset=record.offset)
                    try:
                        decision = Decision.from_record(record.value or b"", record.headers)
                    except InvalidEventError as error:
                        if error.code != "unknown_type":
                            on_invalid(origin, error)
                        continue
                    yield PublishedDecision(origin=origin, decision=decision)
            if not follow and len(ends) == count and all([await consumer.position(tp) >= ends[tp] for tp in partitions]):
                return
    finally:
        await consumer.stop()
