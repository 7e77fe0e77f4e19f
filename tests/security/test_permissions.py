"""Worker and gate on a broker that denies everything but the documented permissions, and without one of these."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from schemas.settings import Settings
from streams.connection import Connection
from streams.gateway import VerdictGate
from streams.gateway.decision_reader import read_decisions
from streams.intake.publishing import publish_events
from streams.processor.start_check import ready_topics
from streams.topics_admin import TopicsError, check_topics, create_topics
from tests.security.documented_permissions import Permission, documented_permissions

pytestmark = pytest.mark.broker

Environment = Callable[..., dict[str, str]]


@pytest.fixture
def as_user(environment: Environment) -> Callable[[str], Settings]:
    """Return the settings of a user, under this test's topic prefix and group."""

    def settings(user: str | None) -> Settings:
        listener = "PLAINTEXT" if user is None else "SASL_PLAINTEXT"
        variables = environment(listener, user=user)
        return Settings(**{name.removeprefix("LOOPWARDEN_").lower(): value for name, value in variables.items()})  # type: ignore[arg-type]  # texts, as from the environment

    return settings


@pytest.fixture
def here(as_user: Any) -> Callable[[str], list[Permission]]:
    """Return what the documentation gives a user, under this test's names."""
    settings = as_user(None)
    return lambda user: [
        permission.under(prefix=settings.topic_prefix, group=settings.group) for permission in documented_permissions(user)
    ]


async def make_topics(settings: Settings) -> None:
    await create_topics(Connection.from_settings(settings), settings.topics, partitions=2, group=settings.group)


async def read_all(settings: Settings) -> list[Any]:
    return [item async for item in read_decisions(Connection.from_settings(settings), settings.topics)]


WORKER = documented_permissions("worker")


async def test_a_worker_with_the_documented_permissions_lacks_nothing(as_user: Any, here: Any, allow: Any) -> None:
    await make_topics(as_user(None))
    allow(here("worker"))
    assert await ready_topics(as_user("worker")) == 2


@pytest.mark.parametrize("number", range(len(WORKER)), ids=[f"{each.operation} {each.kind} {each.name}" for each in WORKER])
async def test_a_worker_that_lacks_one_permission_names_it(number: int, as_user: Any, here: Any, allow: Any) -> None:
    """So each of the documented permissions is needed, and each that is needed is documented."""
    await make_topics(as_user(None))
    permissions = here("worker")
    lacking = permissions.pop(number)
    allow(permissions)
    with pytest.raises(TopicsError) as caught:
        await ready_topics(as_user("worker"))
    (line,) = str(caught.value).splitlines()
    if lacking.kind == "group":
        assert line == f"group {lacking.name}: user worker may not Read this consumer group"
    else:
        assert line.startswith(f"{lacking.name}: user worker may not {lacking.operation} this topic")


async def test_a_worker_makes_its_changelog_only_where_it_may(as_user: Any, here: Any, allow: Any) -> None:
    settings = as_user(None)
    await create_topics(Connection.from_settings(settings), settings.topics, partitions=2)
    allow(here("worker"))
    changelog = settings.topics.changelog(settings.group)
    with pytest.raises(
        TopicsError, match=rf"^{changelog}: missing, and user worker may not Create it; run `loopwarden topics create`"
    ):
        await ready_topics(as_user("worker"))
    allow([Permission(user="worker", operation="Create", kind="topic", name=changelog)])
    assert await ready_topics(as_user("worker")) == 2


async def test_a_worker_without_any_permission_says_what_it_needs_in_one_go(as_user: Any, here: Any) -> None:
    await make_topics(as_user(None))
    with pytest.raises(TopicsError) as caught:
        await ready_topics(as_user("worker"))
    named = {line.removeprefix("group ").split(":")[0] for line in str(caught.value).splitlines()}
    assert named == {permission.name for permission in here("worker")}


async def test_a_gate_reads_with_its_one_permission_and_names_it_when_it_lacks(
    as_user: Any, here: Any, allow: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await make_topics(as_user(None))
    settings = as_user("gate")
    decisions = settings.topics.decisions
    with pytest.raises(TopicsError, match=f"^{decisions}: user gate may not Read this topic"):
        await read_all(settings)
    async with VerdictGate(settings) as gate:
        assert not await gate.wait_until_caught_up(timeout=2)
    assert f"{decisions}: user gate may not" in caplog.text
    caplog.clear()
    allow(here("gate"))
    assert await read_all(settings) == []
    async with VerdictGate(settings) as gate:
        assert await gate.wait_until_caught_up(timeout=60)
    assert "may not" not in caplog.text


async def test_a_gate_that_may_only_describe_is_told_that_it_may_not_read(as_user: Any, allow: Any) -> None:
    await make_topics(as_user(None))
    settings = as_user("gate")
    allow([Permission(user="gate", operation="Describe", kind="topic", name=settings.topics.decisions)])
    with pytest.raises(TopicsError, match=r"user gate may not Read this topic$"):
        await asyncio.wait_for(read_all(settings), 60)


async def test_a_gateway_publishes_with_the_documented_permissions_only(as_user: Any, here: Any, allow: Any) -> None:
    await make_topics(as_user(None))
    settings = as_user("gateway")
    permissions = here("gateway")
    allow(permissions[:1])
    lacking = permissions[1].name
    with pytest.raises(TopicsError, match=f"^{lacking}: user gateway may not Write this topic"):
        await publish_events(Connection.from_settings(settings), [], topics=settings.topics)
    allow(permissions)
    assert await publish_events(Connection.from_settings(settings), [], topics=settings.topics) == 0


async def test_an_operator_creates_and_checks_with_the_documented_permissions(as_user: Any, here: Any, allow: Any) -> None:
    settings = as_user("operator")
    connection = Connection.from_settings(settings)
    with pytest.raises(TopicsError, match="user operator may not Create it"):
        await make_topics(settings)
    allow(here("operator"))
    await make_topics(settings)
    assert await check_topics(connection, settings.topics, group=settings.group) == []


async def test_a_check_without_describe_configs_says_what_it_cannot_see(as_user: Any, here: Any, allow: Any) -> None:
    settings = as_user("operator")
    await make_topics(as_user(None))
    allow([permission for permission in here("operator") if permission.operation != "DescribeConfigs"])
    problems = await check_topics(Connection.from_settings(settings), settings.topics, group=settings.group)
    assert f"{settings.topics.decisions}: cleanup.policy cannot be seen: user operator may not DescribeConfigs of it" in problems
