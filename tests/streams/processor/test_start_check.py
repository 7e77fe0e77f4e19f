"""A worker that cannot work says why before it joins its group: one line for each reason, exit code 2."""

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from streams.cli.main import app
from streams.connection import Connection
from streams.processor.start_check import ready_topics
from streams.topics_admin import TopicsError, admin_client, create_topics

pytestmark = pytest.mark.broker


async def reasons(lab: Any) -> list[str]:
    with pytest.raises(TopicsError) as caught:
        await ready_topics(lab.settings)
    return str(caught.value).splitlines()


async def test_each_missing_topic_is_a_line_and_the_changelog_none(lab: Any) -> None:
    topics = lab.settings.topics
    used = [*topics.inputs, topics.decisions, topics.policies, *map(topics.dead_letters, (*topics.inputs, topics.policies))]
    assert sorted(await reasons(lab)) == sorted(f"{name}: missing; run `loopwarden topics create`" for name in used)


async def test_a_missing_changelog_is_made_with_the_partitions_of_the_inputs(lab: Any) -> None:
    await lab.create()
    connection, topics, group = Connection.from_settings(lab.settings), lab.settings.topics, lab.settings.group
    async with admin_client(connection) as client:
        assert topics.changelog(group) not in await client.list_topics()
        assert await ready_topics(lab.settings) == 2
        assert topics.changelog(group) in await client.list_topics()
    assert await create_topics(connection, topics, group=group) == []


async def test_topics_that_only_others_need_may_be_missing(lab: Any) -> None:
    await lab.create()
    topics = lab.settings.topics
    async with admin_client(Connection.from_settings(lab.settings)) as client:
        await client.delete_topics([topics.deliveries, topics.dead_letters(topics.decisions)])
    assert await ready_topics(lab.settings) == 2


async def test_wrong_partition_counts_and_cleanup_policies_are_a_line_each(lab: Any, topic_factory: Callable[..., str]) -> None:
    topics, group = lab.settings.topics, lab.settings.group
    topic_factory(name=topics.decisions, partitions=3)
    topic_factory(name=topics.changelog(group), partitions=2, config={"cleanup.policy": "delete"})
    topic_factory(name=topics.policies, partitions=2, config={"cleanup.policy": "compact"})
    await lab.create()
    lines = sorted(await reasons(lab))
    expected = sorted(
        [
            f"{topics.decisions}: 3 partitions, but 2 in ",
            f"{topics.policies}: 2 partitions, must have one",
            f"{topics.changelog(group)}: cleanup.policy is delete, must be compact",
        ]
    )
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True)), lines


def test_the_command_ends_with_these_lines_and_exit_code_2(lab: Any) -> None:
    result = CliRunner().invoke(app, ["worker"], env=lab.settings.environment())
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if line.startswith("loopwarden: ")]
    assert len(lines) == 7
    assert all(line.endswith(": missing; run `loopwarden topics create`") for line in lines)
