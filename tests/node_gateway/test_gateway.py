"""A gateway in another language against a broker and a worker: it publishes, reads decisions, and refuses the looping call."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord
from jsonschema import Draft202012Validator

from schemas.contract.messages import MESSAGES
from schemas.fingerprints import args_hash
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 3
CHECKS = {
    message.event_type: Draft202012Validator(message.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for message in MESSAGES
}


@pytest.fixture
def settings(broker_traits: Any, unique_name: Callable[[str], str], tmp_path: Path) -> Settings:
    """Settings of a worker whose topics are there."""
    name = unique_name("node")
    policy = tmp_path / "policy.json"
    policy.write_text('{"tools": {"loopDetection": {"enabled": true}}}')
    made = Settings(
        bootstrap_servers=broker_traits.bootstrap_servers,
        topic_prefix=f"{name}.",
        group=name,
        session_timeout=broker_traits.session_timeout,
        heartbeat_interval=broker_traits.heartbeat_interval,
        idempotent_producer=broker_traits.idempotent_producer,
        commit_interval=0.1,
        policy_file=policy,
    )
    asyncio.run(create_topics(Connection.from_settings(made), made.topics, partitions=PARTITIONS))
    return made


async def records(settings: Settings, topic: str, *, at_least: int) -> list[ConsumerRecord]:
    """Read the first records of a topic, each partition in order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        found: list[ConsumerRecord] = []
        async with asyncio.timeout(60):
            while len(found) < at_least:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    found += batch
        return found
    finally:
        await consumer.stop()


@pytest.mark.broker
def test_the_looping_call_is_warned_about_and_then_refused(node: Callable[..., Any], settings: Settings, tmp_path: Path) -> None:
    run = "run-7f3a"
    with WorkerProcess(settings, log_path=tmp_path / "worker.log"):
        result = node("gateway.mjs", settings.bootstrap_servers, settings.topic_prefix, run, timeout=180)
    assert result.returncode == 0, result.stderr
    *lines, refused = (json.loads(line) for line in result.stdout.splitlines())
    decisions = [line for line in lines if "action" in line]
    signature = {"scope": "call", "tool": "exec", "args_hash": args_hash({"command": "npm test", "timeout": 60})}
    assert {json.dumps(decision["target"]) for decision in decisions} == {json.dumps(signature)}
    assert decisions[0]["action"] == "warn"
    assert any(line["decision_id"] == refused["decision_id"] and line["action"] == "block" for line in decisions)
    # At the defaults a call with one outcome is refused at the 21st attempt; the gate may hear of it a little later.
    assert refused["refused"] >= 21

    published = asyncio.run(records(settings, settings.topics.tool_calls, at_least=2 * (refused["refused"] - 1) + 2))
    assert {record.partition for record in published} == {partition_of(run, PARTITIONS)}
    for record in published:
        event = json.loads(record.value)
        CHECKS[event["type"]].validate(event)
        assert record.key == run.encode()
    sequences = [json.loads(record.value)["sequence"] for record in published]
    assert sequences == sorted(set(sequences))
    for record in asyncio.run(records(settings, settings.topics.decisions, at_least=len(decisions))):
        written = json.loads(record.value)
        CHECKS[written["type"]].validate(written)
