"""Where a consumer group begins that has not read yet."""

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError

from streams.connection import Connection
from streams.topics_admin import partition_counts

_FETCH_MAX_WAIT_MS = 100


async def begin_at_the_end(connection: Connection, *, topic: str, group: str) -> bool:
    """Commit the present end of each partition that the group has no offset for; return whether there was one.

    So a decision that is written while no worker runs is not skipped later, as it would be by starting at the end each time, and
    a partition that is added later is read from its beginning. In a group with members nothing is done: they began somewhere.
    Raises `TopicsError` when the topic is missing, and `aiokafka.errors.KafkaError`.
    """
    count = (await partition_counts(connection, [topic]))[topic]
    places = [TopicPartition(topic, number) for number in range(count)]
    consumer = connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS, group=group)
    await consumer.start()
    try:
        consumer.assign(places)
        fresh = [place for place in places if await consumer.committed(place) is None]
        if not fresh:
            return False
        consumer.pause(*(place for place in places if place not in fresh))
        for place, offset in (await consumer.end_offsets(fresh)).items():
            consumer.seek(place, offset)
        # The high watermark of a fetch: Tansu 0.6 answers ListOffsets with the first offset of the last batch.
        ends: dict[TopicPartition, int] = {}
        while len(ends) < len(fresh):
            await consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            ends = {place: end for place in fresh if (end := consumer.highwater(place)) is not None}
        try:
            await consumer.commit(ends)
        except CommitFailedError:
            return False
        return True
    finally:
        await consumer.stop()
