"""The brokers that tests run against, and factories for what they keep there."""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.broker import EmbeddedBroker


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerTraits:
    """In which respects the brokers under test differ; times in seconds."""

    bootstrap_servers: str
    #: the shortest session the broker accepts (Apache Kafka: `group.min.session.timeout.ms`, 6 s as shipped)
    session_timeout: float
    heartbeat_interval: float
    #: whether aiokafka's InitProducerId v0 is answered
    idempotent_producer: bool


#: Address of an Apache Kafka to run the tests against in place of the embedded broker.
EXTERNAL = "LOOPWARDEN_TEST_BROKER"


@pytest.fixture(scope="session", params=["external" if EXTERNAL in os.environ else "embedded"])
def broker_traits(request: pytest.FixtureRequest) -> Iterator[BrokerTraits]:
    """One running broker of each kind (another kind is another parameter and another branch here)."""
    if request.param == "external":
        yield BrokerTraits(
            bootstrap_servers=os.environ[EXTERNAL], session_timeout=6.0, heartbeat_interval=1.0, idempotent_producer=True
        )
        return
    with EmbeddedBroker() as running:
        yield BrokerTraits(
            bootstrap_servers=running.bootstrap_servers,
            # Tansu answers the first join after half the session time-out, in steps of a second.
            session_timeout=2.0,
            heartbeat_interval=0.5,
            idempotent_producer=False,
        )


@pytest.fixture(scope="session")
def broker(broker_traits: BrokerTraits) -> str:
    """The bootstrap address of a running broker, shared by all tests: use names of your own."""
    return broker_traits.bootstrap_servers


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Make a name that no other test has: `unique_name("topic")`."""

    def name(stem: str = "test") -> str:
        return f"{stem}-{uuid.uuid4().hex[:12]}"

    return name


@pytest.fixture
def topic_factory(broker: str, unique_name: Callable[[str], str]) -> Callable[..., str]:
    """Create a topic and return its name: `topic_factory(partitions=4, name=None, config={...})`.

    A plain function, also from within a running event loop (it blocks it for some 20 ms).
    """

    async def create(name: str, partitions: int, config: Mapping[str, str]) -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=broker)
        await client.start()
        try:
            response = await client.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(config))])
            errors = [topic for topic in response.topic_errors if topic[1]]
            assert not errors, errors
        finally:
            await client.close()

    def factory(*, partitions: int = 4, name: str | None = None, config: Mapping[str, str] | None = None) -> str:
        topic = name or unique_name("topic")
        settings = {"cleanup.policy": "delete", "retention.ms": "604800000", "max.message.bytes": "1114112", **(config or {})}
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, create(topic, partitions, settings)).result()
        return topic

    return factory
