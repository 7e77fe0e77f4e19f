"""Topics are made whole, kept as they are, and what is wrong with them is one line each."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError

from schemas.topics import Topics
from streams.connection import Connection
from streams.permissions import describe_topics
from streams.topics_admin import TopicsError, admin_client, check_topics, create_topics, partition_count, partition_counts

pytestmark = pytest.mark.broker


@pytest.fixture
def connection(broker: str) -> Connection:
    return Connection(bootstrap_servers=broker)


@pytest.fixture
def topics(unique_name: Callable[[str], str]) -> Topics:
    """Names that no other test has; the topics are not there yet."""
    return Topics(prefix=f"{unique_name('admin')}.")


@pytest.fixture
def group(unique_name: Callable[[str], str]) -> str:
    return unique_name("group")


async def test_all_topics_are_made_and_can_be_used_at_once(connection: Connection, topics: Topics, group: str) -> None:
    created = await create_topics(connection, topics, partitions=3, group=group)
    assert set(created) == {spec.name for spec in topics.specs(partitions=3, max_event_bytes=1, group=group)}
    assert await partition_count(connection, topics) == 3
    assert await check_topics(connection, topics, group=group) == []
    assert await create_topics(connection, topics, partitions=3, group=group) == []


async def test_several_may_make_them_at_once(connection: Connection, topics: Topics, group: str) -> None:
    made: Sequence[list[str]] = await asyncio.gather(*(create_topics(connection, topics, group=group) for _ in range(3)))
    names = [name for each in made for name in each]
    assert len(names) == len(set(names)) == len(list(topics.specs(partitions=1, max_event_bytes=1, group=group)))


async def test_asking_for_a_topic_does_not_create_it(connection: Connection, topics: Topics) -> None:
    with pytest.raises(TopicsError) as caught:
        await partition_counts(connection, [topics.decisions, topics.tool_calls])
    assert str(caught.value).splitlines() == [
        f"{name}: missing; run `loopwarden topics create`" for name in (topics.decisions, topics.tool_calls)
    ]
    async with admin_client(connection) as client:
        assert isinstance(client, AIOKafkaAdminClient)
        assert not {topics.decisions, topics.tool_calls} & set(await client.list_topics())


async def test_a_changelog_with_another_partition_count_or_cleanup_policy_is_a_finding(
    connection: Connection, topics: Topics, group: str, topic_factory: Callable[..., str]
) -> None:
    topic_factory(name=topics.changelog(group), partitions=5, config={"cleanup.policy": "delete"})
    await create_topics(connection, topics, partitions=2, group=group)
    count, cleanup = sorted(await check_topics(connection, topics, group=group))
    assert count.startswith(f"{topics.changelog(group)}: 5 partitions, but 2 in ")
    assert cleanup.startswith(f"{topics.changelog(group)}: cleanup.policy is delete, must be compact")
    assert await check_topics(connection, topics) == []


async def test_a_description_tells_copies_and_partitions(
    connection: Connection, topic_factory: Callable[..., str], broker_traits: object
) -> None:
    topic = topic_factory(partitions=3)
    async with admin_client(connection) as client:
        found = (await describe_topics(client, [topic]))[topic]
    assert (found.partitions, found.replication_factor, found.visible) == (3, 1, True)
    assert found.lacks(()) == []


async def test_an_absent_broker_is_an_error_with_each_address() -> None:
    connection = Connection(bootstrap_servers="127.0.0.1:1,127.0.0.1:2,no-such-host.invalid:9")
    with pytest.raises(KafkaConnectionError) as caught:
        await check_topics(connection, Topics())
    for expected in ("127.0.0.1:1: connection refused", "127.0.0.1:2: connection refused", "no-such-host.invalid:9: "):
        assert expected in str(caught.value)
