"""Create the topics and check that they are as the workers need them."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code

from schemas.settings import Settings
from schemas.topics import Topics
from streams.connection import Connection

_REMEDY = "run `loopwarden topics create`"

#: Milliseconds to wait for each answer; the client's own 40 s is too long for somebody who waits at a terminal.
_REQUEST_TIMEOUT_MS = 10_000


class TopicsError(RuntimeError):
    """Topics are missing, disagree or cannot be made; the message is one line for each problem."""


@asynccontextmanager
async def _admin(connection: Connection) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(**connection.client_options(), request_timeout_ms=_REQUEST_TIMEOUT_MS)
    try:
        await client.start()
        yield client
    finally:
        await client.close()


async def create_topics(
    connection: Connection,
    topics: Topics,
    *,
    partitions: int = 4,
    replication_factor: int = 1,
    max_event_bytes: int | None = None,
) -> list[str]:
    """Create the topics that are missing, with their settings, and return their names; existing ones are kept as they are.

    Without `max_event_bytes` the default of the settings holds. Raises `TopicsError` when the broker refuses one, and
    `aiokafka.errors.KafkaError` when it cannot be reached.
    """
    size = Settings.model_fields["max_event_bytes"].default if max_event_bytes is None else max_event_bytes
    specs = list(topics.specs(partitions=partitions, max_event_bytes=size, replication_factor=replication_factor))
    async with _admin(connection) as client:
        there = await _counts(client)
        missing = [spec for spec in specs if spec.name not in there]
        if not missing:
            return []
        response = await client.create_topics(
            [NewTopic(spec.name, spec.partitions, replication_factor, topic_configs=spec.config) for spec in missing]
        )
    created, refused = [], []
    for name, code, *message in response.topic_errors:
        if not code:
            created.append(name)
        elif code != TopicAlreadyExistsError.errno:  # somebody else may have made it since we looked
            refused.append(f"{name}: cannot be created: {(message and message[0]) or for_code(code).__name__}")
    if refused:
        raise TopicsError("\n".join(refused))
    return created


async def check_topics(connection: Connection, topics: Topics) -> list[str]:
    """Return what is wrong with the topics, one line for each problem; an empty list means that workers can run.

    Looked at: missing topics, partition counts of inputs, decisions and dead letters that differ, and `cleanup.policy` where the
    broker reports it (Tansu only reports what was set explicitly). Raises `aiokafka.errors.KafkaError` when the broker cannot
    be reached.
    """
    async with _admin(connection) as client:
        counts = await _counts(client)
        wanted = {spec.name: spec for spec in topics.specs(partitions=1, max_event_bytes=1)}
        cleanup = await _cleanup_policies(client, [name for name in wanted if name in counts])
    problems = [f"{name}: missing; {_REMEDY}" for name in wanted if name not in counts]
    problems += _disagreements({name: counts[name] for name in wanted if name in counts and name != topics.policies})
    for name, found in cleanup.items():
        right = wanted[name].config["cleanup.policy"]
        if found != right:
            problems.append(f"{name}: cleanup.policy is {found}, must be {right}; change it with kafka-configs")
    return problems


async def partition_counts(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic; raises `TopicsError` naming the missing ones."""
    async with _admin(connection) as client:
        counts = await _counts(client)
    wanted = list(names)
    if missing := [name for name in wanted if name not in counts]:
        raise TopicsError("\n".join(f"{name}: missing; {_REMEDY}" for name in missing))
    return {name: counts[name] for name in wanted}


async def partition_count(connection: Connection, topics: Topics) -> int:
    """Return the number of partitions that inputs and decisions share; raises `TopicsError` when they are missing or differ."""
    counts = await partition_counts(connection, [*topics.inputs, topics.decisions])
    if problems := _disagreements(counts):
        raise TopicsError("\n".join(problems))
    return counts[topics.tool_calls]


def _disagreements(counts: Mapping[str, int]) -> list[str]:
    # The count that most topics have is taken for the intended one, the larger one when there is a tie.
    if len(set(counts.values())) < 2:
        return []
    intended, _ = max(Counter(counts.values()).items(), key=lambda item: (item[1], item[0]))
    others = ", ".join(name for name, count in counts.items() if count == intended)
    return [
        f"{name}: {count} partition{'' if count == 1 else 's'}, but {intended} in {others};"
        " all but the policies topic must have the same number, delete and create it again or add partitions"
        for name, count in counts.items()
        if count != intended
    ]


async def _counts(client: AIOKafkaAdminClient) -> dict[str, int]:
    # All topics are listed: asking for one by name creates it on brokers with auto.create.topics.enable.
    return {topic["topic"]: len(topic["partitions"]) for topic in await client.describe_topics() if not topic["error_code"]}


async def _cleanup_policies(client: AIOKafkaAdminClient, names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    # All settings are asked for: Tansu hangs up on a question for single ones.
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, str] = {}
    for response in await client.describe_configs(wanted):
        for error_code, _, _, name, entries in response.resources:
            value = None if error_code else {entry[0]: entry[1] for entry in entries}.get("cleanup.policy")
            if value is not None:
                found[name] = value
    return found
