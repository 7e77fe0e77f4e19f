"""A published policy takes effect without a restart, at offsets that are on record."""

from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from schemas.topics import partition_of
from streams.connection import Connection
from streams.policies_topic import MarkerWatch, publish_policy

pytestmark = pytest.mark.broker


def detectors(**settings: Any) -> dict[str, Any]:
    return {"tools": {"loopDetection": {"enabled": True, **settings}}}


async def put_into_force(lab: Any, policy: dict[str, Any], *, key: str = "*", combined: dict[str, Any] | None = None) -> str:
    """Publish a policy and wait for it to be in force; return the version of what is in force then."""
    connection, topics = Connection.from_settings(lab.settings), lab.settings.topics
    version = PolicyDocument.from_mapping(combined or policy).version
    async with MarkerWatch(connection, topics) as watch:
        await publish_policy(connection, topics, PolicyDocument.from_mapping(policy), key=key)
        await watch.until_in_force(version)
    return version


async def markers(lab: Any, partition: int) -> list[PolicyApplied]:
    found = []
    for record in await lab.records(lab.settings.topics.decisions, partition):
        try:
            found.append(PolicyApplied.from_record(record.value, record.headers))
        except InvalidEventError:
            continue
    return found


def blocks(decisions: list[Decision], run_id: str) -> list[int]:
    return [decision.count for decision in decisions if decision.run_id == run_id and decision.action == "block"]


async def test_a_running_worker_judges_by_a_policy_as_soon_as_its_markers_are_there(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    worker = lab.worker(detectors())
    await lab.publish(run.loop(6))
    await lab.committed(worker)
    assert blocks(await lab.decisions(), run.run_id) == []
    version = await put_into_force(lab, detectors(warningThreshold=2, criticalThreshold=4))
    blocked = await lab.decision(lambda decision: decision.action == "block")
    assert (blocked.count, blocked.policy_version) == (6, version), "judged again without an event"
    await lab.publish(run.loop(1))
    await lab.committed(worker)
    assert blocks(await lab.decisions(), run.run_id)[-1] == 7
    first, second = await markers(lab, partition_of(run.run_id, 2))
    assert (first.tool_calls_offset, second.tool_calls_offset, second.policy_version) == (0, 12, version)
    assert PolicyDocument.from_mapping(second.policy).version == version


async def test_the_policy_of_one_agent_is_laid_over_that_of_all_others(lab: Any) -> None:
    await lab.create()
    worker = lab.worker(detectors())
    own = detectors(warningThreshold=2, criticalThreshold=3)
    entry = {"id": "owl", **own}
    await put_into_force(lab, own, key="Owl", combined={**detectors(), "agents": {"list": [entry]}})
    owl, other = lab.run("owl-run"), lab.run("other-run")
    for run, agent in ((owl, "owl"), (other, "fox")):
        events = run.loop(5, agent_id=agent)
        await lab.publish(events)
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert blocks(decisions, "owl-run") != []
    assert blocks(decisions, "other-run") == []


async def test_a_restarted_worker_goes_by_the_published_policy_and_not_by_its_file(lab: Any) -> None:
    await lab.create()
    worker = lab.worker(detectors())
    version = await put_into_force(lab, detectors(warningThreshold=2, criticalThreshold=4))
    before = [await markers(lab, partition) for partition in (0, 1)]
    worker.kill()
    worker = lab.worker(detectors())
    await lab.publish(lab.run().loop(5))
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert {decision.policy_version for decision in decisions} == {version}
    assert [await markers(lab, partition) for partition in (0, 1)] == before, "nothing is applied again"


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"*", b"{"), (b"*", b'{"specversion":"1.0","id":"1","source":"/t","type":"dev.loopwarden.policy.v1","data":{"tools":3}}')],
    ids=["not JSON", "not a policy"],
)
async def test_a_bad_policy_is_dead_lettered_and_the_last_good_one_stays_in_force(lab: Any, key: bytes, value: bytes) -> None:
    await lab.create()
    worker = lab.worker(detectors())
    version = await put_into_force(lab, detectors(warningThreshold=2, criticalThreshold=4))
    producer = AIOKafkaProducer(bootstrap_servers=lab.settings.bootstrap_servers)
    await producer.start()
    try:
        await producer.send_and_wait(lab.settings.topics.policies, value, key=key, partition=0, headers=[("h", b"1")])
    finally:
        await producer.stop()
    letters: list[Any] = []
    while not letters:
        worker.ensure_running()
        letters = await lab.records(lab.settings.topics.dead_letters(lab.settings.topics.policies), 0)
    assert [(letter.key, letter.value, letter.headers[0]) for letter in letters] == [(key, value, ("h", b"1"))]
    assert dict(letters[0].headers)["loopwarden.error.offset"] == b"1"
    worker.stop()
    worker = lab.worker(detectors())
    await lab.publish(lab.run().loop(5))
    await lab.committed(worker)
    assert {decision.policy_version for decision in await lab.decisions()} == {version}
    assert len(await lab.records(lab.settings.topics.dead_letters(lab.settings.topics.policies), 0)) == 1, "once"
