"""A broker that stops in the middle of an agent's work."""

import asyncio
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streams.gateway import EventPublisher, ToolCallRefused, VerdictGate, guard
from tests.brokers.apache_kafka import ApacheKafka
from tests.brokers.kafka_jars import KafkaUnavailableError
from tests.streams.gateway.lab import PATIENCE, Lab, lab_settings

pytestmark = pytest.mark.broker

CALLS = 1000

#: Seconds that calls may take, the millisecond of sleep included: all but one in a hundred, and every one. Whatever waits for a
#: broker that is not there takes longer; a busy machine takes the processor away in ways that the system does not count.
LIMIT = 0.05
LONGEST = 1.0


@pytest.fixture
def kafka() -> Any:
    """An Apache Kafka of this test alone."""
    try:
        with ApacheKafka() as broker:
            yield broker
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))


class Agent:
    """Makes guarded calls of many runs and takes their time, that of the gate's and publisher's own tasks included.

    A call during which the system took the processor away tells nothing, and is left out.
    """

    def __init__(self, gate: VerdictGate, publisher: EventPublisher) -> None:
        self.gate = gate
        self.publisher = publisher
        self.times: list[float] = []
        self.refused = 0

    async def call(self, run_id: str, params: Any) -> None:
        """Make one call, then let the loop's other tasks have their turn."""
        preempted, begin = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw, time.perf_counter()
        try:
            with guard(self.gate, self.publisher, run_id=run_id, tool="read", params=params) as call:
                call.result = "same"
        except ToolCallRefused:
            self.refused += 1
        await asyncio.sleep(0.001)
        if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == preempted:
            self.times.append(time.perf_counter() - begin)

    def check(self) -> None:
        """Check that nothing waited for the broker."""
        times = sorted(self.times)
        assert times[-1] < LONGEST, times[-5:]
        assert times[-1 - len(times) // 100] < LIMIT, times[-20:]


async def test_a_broker_that_stops_in_the_middle_breaks_and_delays_nothing(kafka: ApacheKafka, tmp_path: Path) -> None:
    traits = type("Traits", (), {"session_timeout": 6.0, "heartbeat_interval": 1.0, "idempotent_producer": True})()
    traits.bootstrap_servers = kafka.bootstrap_servers
    lab = Lab(lab_settings(traits, "outage", tmp_path), tmp_path)
    await lab.create()
    worker = lab.worker()
    async with EventPublisher(lab.settings) as publisher, VerdictGate(lab.settings, max_lag=1.0) as gate:
        agent = Agent(gate, publisher)
        for _ in range(20):
            await agent.call("looping", {"path": "a"})
        assert await publisher.flush(PATIENCE)
        await lab.judged(worker, publisher)
        assert await gate.wait_until_caught_up(PATIENCE)
        assert gate.check("looping", "read", {"path": "a"}).refused
        agent.times.clear()
        agent.refused = 0
        for number in range(CALLS):
            if number == CALLS // 4:
                stopping = asyncio.create_task(asyncio.to_thread(kafka.kill))
            if number == 3 * CALLS // 4:
                await stopping
                starting = asyncio.create_task(asyncio.to_thread(kafka.start))
            await agent.call(f"run {number % 10}", {"n": number})
            if number % 50 == 0:
                await agent.call("looping", {"path": "a"})
        assert agent.refused == CALLS // 50, "what was refused before stays refused"
        assert len(agent.times) > CALLS / 4, "too many were interrupted to tell"
        agent.check()
        await starting
        for _ in range(20):
            await agent.call("later", {"path": "b"})
        assert await publisher.flush(PATIENCE)
        assert publisher.dropped == 0
        await lab.judged(worker, publisher)
        assert await gate.wait_until_caught_up(PATIENCE)
        assert gate.check("later", "read", {"path": "b"}).refused, "a loop of after the outage is found"
        assert gate.check("looping", "read", {"path": "a"}).refused
    events = await lab.events()
    kinds = Counter((data.run_id.split()[0], type(data).event_name) for _, data in {e.id: (e, d) for e, d in events}.values())
    assert kinds["run", "tool-call.started"] == kinds["run", "tool-call.finished"] == CALLS
    assert kinds["looping", "tool-call.blocked"] == CALLS // 50


async def test_a_long_outage_drops_events_and_the_runs_say_so(kafka: ApacheKafka, tmp_path: Path) -> None:
    traits = type("Traits", (), {"session_timeout": 6.0, "heartbeat_interval": 1.0, "idempotent_producer": True})()
    traits.bootstrap_servers = kafka.bootstrap_servers
    lab = Lab(lab_settings(traits, "outage", tmp_path), tmp_path)
    await lab.create()
    async with EventPublisher(lab.settings, buffer_events=100) as publisher:
        publisher.call_started("r", "read", {"n": 0})
        assert await publisher.flush(PATIENCE)
        kafka.kill()
        for number in range(1, 300):
            publisher.call_started("r", "read", {"n": number})
        lost = publisher.dropped
        assert lost == 199
        kafka.start()
        assert await publisher.flush(PATIENCE)
        publisher.call_started("r", "read", {"n": 300})
        assert await publisher.flush(PATIENCE)
    events = {envelope.id: (envelope, data) for envelope, data in await lab.events()}
    assert len(events) == 102
    assert [data.lost_events for _, data in events.values() if data.lost_events] == [lost]
    numbers = [envelope.sequence for envelope, _ in events.values()]
    assert numbers == sorted(numbers)


async def test_a_broker_that_hangs_is_waited_for_without_waiting(kafka: ApacheKafka, tmp_path: Path) -> None:
    traits = type("Traits", (), {"session_timeout": 6.0, "heartbeat_interval": 1.0, "idempotent_producer": True})()
    traits.bootstrap_servers = kafka.bootstrap_servers
    lab = Lab(lab_settings(traits, "hang", tmp_path), tmp_path)
    await lab.create()
    async with EventPublisher(lab.settings) as publisher, VerdictGate(lab.settings, max_lag=1.0) as gate:
        publisher.call_started("r", "read", {"n": 0})
        assert await publisher.flush(PATIENCE)
        assert await gate.wait_until_caught_up(PATIENCE)
        kafka.pause()
        agent = Agent(gate, publisher)
        async with asyncio.timeout(PATIENCE):
            # Longer than a request may take, so that batches that were under way fail and are sent again.
            until = time.monotonic() + 15
            while time.monotonic() < until or not gate.check("r", "read", {}).stale:
                await agent.call("r", {"n": 1})
                await asyncio.sleep(0.02)
        agent.check()
        kafka.resume()
        assert await publisher.flush(PATIENCE)
        assert await gate.wait_until_caught_up(PATIENCE)
        assert publisher.dropped == 0
        published = publisher.published
    events = await lab.events()
    first_seen = list({envelope.id: envelope.sequence for envelope, _ in events}.values())
    assert len(first_seen) == published
    assert first_seen == sorted(first_seen)
