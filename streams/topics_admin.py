"""Create the topics and check that they are as the workers need them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConnectionError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from schemas.settings import Settings
from schemas.topics import Topics, TopicSpec
from streams.connection import Connection
from streams.permissions import Operation, TopicDescription, describe_topics, missing_permissions
from streams.reachability import why_unreachable

_REMEDY = "run `loopwarden topics create`"
_NOT_AUTHORIZED = frozenset({TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno})

#: Milliseconds to wait for each answer; the client's own 40 s is too long for somebody who waits at a terminal.
_REQUEST_TIMEOUT_MS = 10_000

#: Seconds between two looks whether new topics are known, and how many.
_LOOK_INTERVAL = 0.05
_LOOKS = 400


class TopicsError(RuntimeError):
    """Topics are missing, disagree, cannot be made or may not be used; the message is one line for each problem."""


@asynccontextmanager
async def admin_client(connection: Connection) -> AsyncIterator[AIOKafkaAdminClient]:
    """Give a connected admin client.

    Raises `aiokafka.errors.KafkaConnectionError` when no broker answers, and `streams.reachability.RefusedConnectionError` when
    one does but TLS or the login fails.
    """
    client = AIOKafkaAdminClient(**connection.client_options(), request_timeout_ms=_REQUEST_TIMEOUT_MS)
    try:
        try:
            await client.start()
        except KafkaConnectionError:
            raise await why_unreachable(connection) from None
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
    group: str | None = None,
) -> list[str]:
    """Create the topics that are missing, with their settings, and return their names; existing ones are kept as they are.

    With a `group` of workers its changelog is made too. Without `max_event_bytes` the default of the settings holds. Raises
    `TopicsError` when the broker refuses one, and the errors of `admin_client`.
    """
    size = Settings.model_fields["max_event_bytes"].default if max_event_bytes is None else max_event_bytes
    specs = list(topics.specs(partitions=partitions, max_event_bytes=size, replication_factor=replication_factor, group=group))
    async with admin_client(connection) as client:
        there = await describe_topics(client, [spec.name for spec in specs])
        missing = [spec for spec in specs if not there[spec.name].partitions]
        return await create_specified(client, missing, replication_factor=replication_factor, user=connection.user)


async def create_specified(
    client: AIOKafkaAdminClient, specs: Iterable[TopicSpec], *, replication_factor: int, user: str
) -> list[str]:
    """Create topics, wait until they can be used, and return those that nobody else had made meanwhile; raises `TopicsError`."""
    new = [NewTopic(spec.name, spec.partitions, replication_factor, topic_configs=spec.config) for spec in specs]
    if not new:
        return []
    response = await client.create_topics(new)
    created, refused = [], []
    for name, code, *message in response.topic_errors:
        if not code:
            created.append(name)
        elif code in _NOT_AUTHORIZED:
            refused.append(f"{name}: missing, and {user} may not Create it; {_REMEDY} as a user who may")
        elif code != TopicAlreadyExistsError.errno:
            refused.append(f"{name}: cannot be created: {(message and message[0]) or for_code(code).__name__}")
    if refused:
        raise TopicsError("\n".join(refused))
    await _until_known(client, [topic.name for topic in new])
    return created


async def _until_known(client: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until the brokers know of new topics: the answer to their creation says that the controller does."""
    for _ in range(_LOOKS):
        # One that this user may not see was there before: who creates a topic without seeing it learns no more.
        if all(topic.partitions or not topic.visible for topic in (await describe_topics(client, names)).values()):
            return
        await asyncio.sleep(_LOOK_INTERVAL)
    raise TopicsError(
        f"{', '.join(names)}: created, but not known to the broker after {_LOOKS * _LOOK_INTERVAL:.0f} s; try again"
    )


async def check_topics(connection: Connection, topics: Topics, *, group: str | None = None) -> list[str]:
    """Return what is wrong with the topics, one line for each problem; an empty list means that workers can run.

    Looked at: missing topics, partition counts that differ, and `cleanup.policy` where the broker reports it (Tansu only reports
    what was set explicitly); with a `group` of workers also its changelog. Raises the errors of `admin_client`.
    """
    wanted = {spec.name: spec for spec in topics.specs(partitions=1, max_event_bytes=1, group=group)}
    async with admin_client(connection) as client:
        found = await describe_topics(client, wanted)
        cleanup = await cleanup_policies(client, [name for name, topic in found.items() if topic.partitions])
    problems = missing_topics(found, user=connection.user)
    problems += differing_partitions(found, topics)
    problems += wrong_cleanup(cleanup.found, wanted)
    problems += [
        f"{name}: cleanup.policy cannot be seen: {connection.user} may not DescribeConfigs of it" for name in cleanup.hidden
    ]
    return problems


async def partition_counts(
    connection: Connection, names: Iterable[str], *, operation: Operation = Operation.DESCRIBE
) -> dict[str, int]:
    """Return the number of partitions of each topic, on all of which this user wants to do `operation`.

    Raises `TopicsError` naming those that are missing or on which that is not allowed, and the errors of `admin_client`.
    """
    async with admin_client(connection) as client:
        found = await describe_topics(client, names)
    hidden = {name: topic for name, topic in found.items() if topic.lacks([operation])}
    problems = missing_permissions(hidden, dict.fromkeys(hidden, (operation,)), user=connection.user)
    problems += missing_topics({name: topic for name, topic in found.items() if name not in hidden}, user=connection.user)
    if problems:
        raise TopicsError("\n".join(problems))
    return {name: topic.partitions for name, topic in found.items()}


async def partition_count(connection: Connection, topics: Topics) -> int:
    """Return the number of partitions that the inputs share, for somebody who writes to them.

    Raises `TopicsError` when they are missing, differ or may not be written to, and the errors of `admin_client`.
    """
    counts = await partition_counts(connection, topics.inputs, operation=Operation.WRITE)
    if len(set(counts.values())) > 1:
        raise TopicsError("\n".join(_disagreements(counts)))
    return counts[topics.tool_calls]


def missing_topics(found: Mapping[str, TopicDescription], *, user: str) -> list[str]:
    """Return one line for each topic that is not there or hidden."""
    return [
        f"{name}: missing; {_REMEDY}"
        if topic.visible
        else f"{name}: {user} may not {Operation.DESCRIBE.label} it, or it is missing"
        for name, topic in found.items()
        if not topic.partitions
    ]


def differing_partitions(found: Mapping[str, TopicDescription], topics: Topics) -> list[str]:
    """Return one line for each topic that has another number of partitions than most."""
    counts = {name: topic.partitions for name, topic in found.items() if topic.partitions}
    problems = [
        f"{name}: {counts[name]} partitions, must have one, because every worker reads all of it; delete and create it again"
        for name in topics.single_partition
        if counts.get(name, 1) != 1
    ]
    return problems + _disagreements({name: count for name, count in counts.items() if name not in topics.single_partition})


def wrong_cleanup(found: Mapping[str, str], wanted: Mapping[str, TopicSpec]) -> list[str]:
    """Return one line for each topic with another cleanup policy than its specification's."""
    return [
        f"{name}: cleanup.policy is {policy}, must be {right}; change it with kafka-configs"
        for name, policy in found.items()
        if policy != (right := wanted[name].config["cleanup.policy"])
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanupPolicies:
    """The cleanup policies that the broker tells of, and the topics whose settings this user may not see."""

    found: Mapping[str, str]
    hidden: tuple[str, ...]


async def cleanup_policies(client: AIOKafkaAdminClient, names: Iterable[str]) -> CleanupPolicies:
    """Ask for the `cleanup.policy` of topics."""
    # All settings are asked for: Tansu hangs up on a question for single ones.
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, str] = {}
    hidden: list[str] = []
    for response in await client.describe_configs(wanted) if wanted else ():
        for code, _, _, name, entries in response.resources:
            if code in _NOT_AUTHORIZED:
                hidden.append(name)
            elif not code and (value := {entry[0]: entry[1] for entry in entries}.get("cleanup.policy")) is not None:
                found[name] = value
    return CleanupPolicies(found=found, hidden=tuple(hidden))


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
