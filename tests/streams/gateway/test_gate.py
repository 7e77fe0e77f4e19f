"""Gates on real brokers: what they read, in which order, and what they do when brokers and topics change."""

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.structs import TopicPartition

from schemas.topics import partition_of
from streams.broker import EmbeddedBroker
from streams.gateway import EventPublisher, SyncEventPublisher, SyncVerdictGate, Verdict, VerdictGate
from tests.brokers.apache_kafka import ApacheKafka
from tests.brokers.kafka_jars import KafkaUnavailableError
from tests.streams.gateway.lab import PATIENCE, Lab, decision, lab_settings

pytestmark = pytest.mark.broker


async def until(wanted: Callable[[], bool]) -> None:
    """Wait for something that a gate comes to know by itself."""
    async with asyncio.timeout(PATIENCE):
        while not wanted():  # noqa: ASYNC110  (a gate has no event for each decision)
            await asyncio.sleep(0.02)


def blocks(number: int, **fields: Any) -> Any:
    return decision(run_id=f"r{number}", params={"n": number}, partition=partition_of(f"r{number}", 2), **fields)


async def test_a_gate_that_starts_late_knows_all_partitions(created: Lab) -> None:
    await created.decide(*(blocks(number) for number in range(20)), blocks(3, action="release", offset=2))
    newer = blocks(5, action="block", offset=9).to_record(source="/t").replace(b'"action":"block"', b'"action":"pause"')
    await created.send(created.topics.decisions, ("r1", b"no decision"), ("r1", b"{}"), ("r5", newer))
    async with VerdictGate(created.settings) as gate:
        assert gate.lag_seconds == math.inf
        assert await gate.wait_until_caught_up(PATIENCE)
        assert (gate.lag_seconds < 5, gate.unreadable) == (True, 3)
        refused = [number for number in range(20) if gate.check(f"r{number}", "read", {"n": number}).refused]
        assert refused == [number for number in range(20) if number != 3]
        await created.decide(blocks(3, offset=3))
        assert await gate.wait_until_caught_up(PATIENCE)
        assert gate.check("r3", "read", {"n": 3}).refused
    assert gate.check("r3", "read", {"n": 3}).refused, "what is known stays known after the end"


async def test_what_is_on_the_topic_when_asked_is_known_after_waiting(created: Lab) -> None:
    async with VerdictGate(created.settings) as gate:
        for number in range(10):
            await created.decide(blocks(number))
            assert await gate.wait_until_caught_up(PATIENCE)
            assert gate.check(f"r{number}", "read", {"n": number}).refused


async def test_a_bounded_look_back_reads_only_what_is_younger(created: Lab, broker_traits: Any) -> None:
    if broker_traits.kind == "embedded":
        pytest.skip("the embedded broker names the last batch as the end of a partition")
    await created.decide(blocks(1), blocks(2))
    await asyncio.sleep(1.5)
    await created.decide(blocks(3), blocks(4))
    async with VerdictGate(created.settings, look_back=1.0) as gate:
        assert await gate.wait_until_caught_up(PATIENCE)
        assert [gate.check(f"r{number}", "read", {"n": number}).refused for number in (1, 2, 3, 4)] == [False, False, True, True]


async def test_a_look_back_that_finds_everything_or_nothing(created: Lab) -> None:
    await created.decide(blocks(1))
    async with VerdictGate(created.settings, look_back=3600.0) as gate:
        assert await gate.wait_until_caught_up(PATIENCE)
        assert gate.check("r1", "read", {"n": 1}).refused


async def test_aborts_are_told_of_once_each_when_they_stand(created: Lab) -> None:
    told: list[tuple[str, str]] = []

    async def on_abort(run_id: str, verdict: Verdict) -> None:
        told.append((run_id, verdict.action))
        raise RuntimeError("whatever a callback does, the gate goes on")

    def ends(run_id: str, offset: int = 1, action: str = "abort", **fields: Any) -> Any:
        place = partition_of(run_id, 2)
        return decision(action, run_id=run_id, scope="run", tool=None, partition=place, offset=offset, **fields)

    await created.decide(ends("stands"), ends("gone"), ends("gone", 2, "release"), ends("shadow", mode="shadow"))
    async with VerdictGate(created.settings, on_abort=on_abort) as gate:
        assert await gate.wait_until_caught_up(PATIENCE)
        await until(lambda: told == [("stands", "abort")])
        await created.decide(ends("live"), ends("live"), ends("shadow", 2, mode="shadow"), ends("other"))
        assert await gate.wait_until_caught_up(PATIENCE)
        await until(lambda: len(told) >= 3)
        assert sorted(told) == [("live", "abort"), ("other", "abort"), ("stands", "abort")]
        assert gate.check("live", "anything").action == "abort"


async def test_the_missing_topic_is_waited_for(lab: Lab) -> None:
    async with VerdictGate(lab.settings) as gate:
        assert not await gate.wait_until_caught_up(0.5)
        await lab.create()
        assert await gate.wait_until_caught_up(PATIENCE)


async def test_new_partitions_are_read_and_a_run_that_moves_begins_afresh(created: Lab, broker_traits: Any) -> None:
    if broker_traits.kind == "embedded":
        pytest.skip("the embedded broker does not add partitions")
    moved = next(f"m{number}" for number in range(100) if partition_of(f"m{number}", 2) != partition_of(f"m{number}", 5))
    await created.decide(decision(run_id=moved, params={"old": 1}, partition=partition_of(moved, 2)))
    async with VerdictGate(created.settings) as gate:
        assert await gate.wait_until_caught_up(PATIENCE)
        client = AIOKafkaAdminClient(bootstrap_servers=created.settings.bootstrap_servers)
        await client.start()
        await client.create_partitions({created.topics.decisions: NewPartitions(5)})
        await client.close()
        assert gate.check(moved, "read", {"old": 1}).refused
        await until(lambda: gate._feed.partitions == 5)
        await created.decide(
            decision(run_id=moved, params={"new": 1}, partition=partition_of(moved, 5)),
            *(decision(run_id=f"n{number}", params={}, partition=partition_of(f"n{number}", 5)) for number in range(20)),
        )
        assert await gate.wait_until_caught_up(PATIENCE)
        assert all(gate.check(f"n{number}", "read", {}).refused for number in range(20))
        assert gate.check(moved, "read", {"new": 1}).refused
        assert gate.check(moved, "read", {"old": 1}).allowed
    async with VerdictGate(created.settings) as late:
        assert await late.wait_until_caught_up(PATIENCE)
        assert (late.check(moved, "read", {"new": 1}).action, late.check(moved, "read", {"old": 1}).action) == ("block", "allow")


@pytest.fixture
def kafka() -> Any:
    """An Apache Kafka of this test alone."""
    try:
        with ApacheKafka() as broker:
            yield broker
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))


def lab_on(broker: Any, folder: Path, *, idempotent: bool) -> Lab:
    traits = type("Traits", (), {})()
    traits.bootstrap_servers, traits.idempotent_producer = broker.bootstrap_servers, idempotent
    traits.session_timeout, traits.heartbeat_interval = 2.0, 0.5
    return Lab(lab_settings(traits, "own", folder), folder)


async def test_after_a_gap_of_retention_the_gate_knows_what_a_new_one_would(kafka: ApacheKafka, tmp_path: Path) -> None:
    lab = lab_on(kafka, tmp_path, idempotent=True)
    await lab.create()
    run = next(f"r{number}" for number in range(10) if partition_of(f"r{number}", 2) == 0)
    other = next(f"r{number}" for number in range(10) if partition_of(f"r{number}", 2) == 1)

    def block(offset: int, action: str = "block", run_id: str = run) -> Any:
        return decision(action, run_id=run_id, params={"n": offset}, partition=partition_of(run_id, 2), offset=offset)

    async with VerdictGate(lab.settings) as gate:
        await lab.decide(block(1), block(2), block(1, run_id=other))
        assert await gate.wait_until_caught_up(PATIENCE)
    # While the gate reads nothing, a release comes, and the records up to it go.
    await lab.decide(block(1, "release"), block(3))
    client = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await client.start()
    await client.delete_records({TopicPartition(lab.topics.decisions, 0): RecordsToDelete(before_offset=3)})
    await client.close()
    assert gate.check(run, "read", {"n": 1}).refused
    async with gate:
        await until(lambda: gate.check(run, "read", {"n": 3}).refused)
        assert gate.check(run, "read", {"n": 1}).allowed
        assert gate.check(run, "read", {"n": 2}).allowed, "as a gate that starts now: its decision is gone"
        assert gate.check(other, "read", {"n": 1}).refused, "other partitions are not touched"


async def test_a_gate_survives_a_broker_that_goes_and_comes_back(kafka: ApacheKafka, tmp_path: Path) -> None:
    lab = lab_on(kafka, tmp_path, idempotent=True)
    await lab.create()
    async with VerdictGate(lab.settings, max_lag=0.5) as gate:
        await lab.decide(blocks(1))
        assert await gate.wait_until_caught_up(PATIENCE)
        kafka.kill()
        await until(lambda: gate.check("r2", "read", {"n": 2}).stale)
        verdict = gate.check("r1", "read", {"n": 1})
        assert (verdict.action, verdict.stale) == ("block", True)
        assert gate.lag_seconds > 0.5
        kafka.start()
        await lab.decide(blocks(2))
        await until(lambda: gate.check("r2", "read", {"n": 2}).refused)
        assert gate.check("r1", "read", {"n": 1}).refused
        await until(lambda: gate.lag_seconds < 0.5)


async def test_a_gate_starts_without_a_broker_and_reads_when_one_comes(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:  # finds a free port
        port = broker.port
    lab = lab_on(broker, tmp_path, idempotent=False)
    begin = time.monotonic()
    async with VerdictGate(lab.settings) as gate:
        assert time.monotonic() - begin < 5
        assert gate.check("r1", "read", {"n": 1}) == gate.check("r2", "read")
        with EmbeddedBroker(port=port):
            await lab.create()
            await lab.decide(*(blocks(number) for number in range(20)))
            await until(lambda: all(gate.check(f"r{number}", "read", {"n": number}).refused for number in range(20)))
        # The embedded broker keeps nothing: its topic is made anew and ends before the gate's place; what was known still holds.
        with EmbeddedBroker(port=port):
            await lab.create()
            await lab.decide(blocks(30))
            await until(lambda: gate.check("r30", "read", {"n": 30}).refused)
            assert gate.check("r1", "read", {"n": 1}).refused


async def test_reported_calls_come_back_as_verdicts(created: Lab) -> None:
    worker = created.worker()
    async with EventPublisher(created.settings, agent_id="owl") as publisher, VerdictGate(created.settings) as gate:
        for number in range(20):
            assert gate.check("r", "read", {"a": 1}).allowed
            publisher.call_started("r", "read", {"a": 1}, call_id=f"c{number}")
            publisher.call_finished("r", "read", {"a": 1}, result="same", call_id=f"c{number}")
        assert await publisher.flush(PATIENCE)
        await created.judged(worker, publisher)
        assert await gate.wait_until_caught_up(PATIENCE)
        verdict = gate.check("r", "read", {"a": 1})
        assert (verdict.action, verdict.count, verdict.detector) == ("block", 20, "generic_repeat")
        publisher.call_blocked("r", "read", {"a": 1}, decision_id=verdict.decision_id)
        publisher.run_ended("r")
        assert await publisher.flush(PATIENCE)
        await created.judged(worker, publisher)
        assert await gate.wait_until_caught_up(PATIENCE)
        assert gate.check("r", "read", {"a": 1}).allowed, "the end of the run released it"


async def test_a_program_without_a_loop_is_told_to_stop(created: Lab) -> None:
    worker = created.worker()

    def work() -> int:
        with SyncEventPublisher(created.settings) as publisher, SyncVerdictGate(created.settings) as gate:
            for number in range(1000):
                if gate.check("r", "read", {"a": 1}).refused:
                    return number
                publisher.call_started("r", "read", {"a": 1})
                publisher.call_finished("r", "read", {"a": 1}, result="same")
                if number == 25:
                    publisher.flush(PATIENCE)
                    asyncio.run(created.judged(worker, publisher))
                    gate.wait_until_caught_up(PATIENCE)
        return -1

    assert 20 <= await asyncio.to_thread(work) <= 26
