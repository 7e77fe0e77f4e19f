"""How far the workers have got: what they committed, asked for without joining their group."""

from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError

from schemas.topics import Topics
from streams.connection import Connection


async def committed_offsets(
    connection: Connection, topics: Topics, partitions: Iterable[int], *, group: str
) -> dict[int, tuple[int, int]]:
    """Return the committed offsets of tool calls and compactions of each partition, 0 where nothing is committed.

    Everything that events below them bring is on the decisions topic. A group that must not be looked at has committed nothing.
    """
    # Without a subscription the client does not join the group. (Tansu hangs up on the admin client's question.)
    client = AIOKafkaConsumer(**connection.client_options(), group_id=group, enable_auto_commit=False)
    await client.start()
    try:
        found = {}
        for number in partitions:
            calls, compactions = [await client.committed(TopicPartition(topic, number)) or 0 for topic in topics.inputs]
            found[number] = (calls, compactions)
    except GroupAuthorizationFailedError:
        return dict.fromkeys(partitions, (0, 0))
    else:
        return found
    finally:
        await client.stop()
