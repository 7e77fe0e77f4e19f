"""What a worker makes sure of before it joins its group: topics, partition counts, cleanup policies, permissions.

Found later, each of these would be an error in the middle of the work, and some of them a client that asks the broker thousands
of times a minute.
"""

import structlog

from schemas.settings import Settings
from schemas.topics import Topics
from streams.connection import Connection
from streams.permissions import Operation, describe_topics, may_join, missing_permissions
from streams.topics_admin import (
    TopicsError,
    admin_client,
    cleanup_policies,
    create_specified,
    differing_partitions,
    missing_topics,
    wrong_cleanup,
)

log = structlog.get_logger()

_READ, _WRITE = Operation.READ, Operation.WRITE


def worker_permissions(topics: Topics, group: str) -> dict[str, list[Operation]]:
    """Return what a worker of a group does with which topic; each of the operations includes Describe."""
    return {
        # Written: records that came to a wrong partition are sent on to their own.
        **{topic: [_READ, _WRITE] for topic in topics.inputs},
        topics.policies: [_READ],
        topics.decisions: [_WRITE],
        **{topics.dead_letters(topic): [_WRITE] for topic in (*topics.inputs, topics.policies)},
        topics.changelog(group): [_READ, _WRITE],
    }


def worker_groups(group: str) -> list[str]:
    """Return the consumer groups that a worker uses: its own, and the one under which it notes how far policies were read."""
    return [group, f"{group}-policies"]


async def ready_topics(settings: Settings) -> int:
    """Return the number of partitions of the inputs, after everything a worker needs was found to be there.

    A changelog that is missing is made. Raises `TopicsError` with one line for each problem, and the errors of
    `streams.topics_admin.admin_client`.
    """
    topics, group = settings.topics, settings.group
    connection = Connection.from_settings(settings)
    changelog = topics.changelog(group)
    permissions = worker_permissions(topics, group)
    async with admin_client(connection) as client:
        found = await describe_topics(client, permissions)
        there = {name: topic for name, topic in found.items() if topic.partitions}
        problems = missing_topics(
            {name: topic for name, topic in found.items() if topic.visible and name != changelog}, user=connection.user
        )
        seen = {name: topic for name, topic in found.items() if name in there or not topic.visible}
        problems += missing_permissions(seen, {name: permissions[name] for name in seen}, user=connection.user)
        problems += differing_partitions(there, topics)
        partitions = found[topics.tool_calls].partitions
        specs = {
            spec.name: spec
            for spec in topics.specs(
                partitions=partitions,
                max_event_bytes=settings.max_event_bytes,
                replication_factor=found[topics.tool_calls].replication_factor,
                group=group,
            )
        }
        cleanup = await cleanup_policies(client, there)
        problems += wrong_cleanup(cleanup.found, specs)
        for each in worker_groups(group):
            if not await may_join(client, each):
                problems.append(f"group {each}: {connection.user} may not {_READ.label} this consumer group")
        if problems:
            raise TopicsError("\n".join(problems))
        if cleanup.hidden:
            log.warning(
                "cleanup.policy of topics is not checked: DescribeConfigs is not allowed",
                user=connection.user,
                topics=", ".join(cleanup.hidden),
            )
        if changelog not in there:
            replicas = found[topics.tool_calls].replication_factor
            await create_specified(client, [specs[changelog]], replication_factor=replicas, user=connection.user)
            log.info("changelog topic created", topic=changelog, partitions=partitions)
    return partitions
