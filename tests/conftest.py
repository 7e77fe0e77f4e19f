"""The brokers that tests run against, and factories for what they keep there."""

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest

from schemas.topics import TopicSpec
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.topics_admin import admin_client, create_specified
from tests.brokers.apache_kafka import ApacheKafka
from tests.brokers.kafka_jars import KafkaUnavailableError, fetch_jars, find_java
from tests.compiled_modules import refuse_stale_modules


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerTraits:
    """In which respects the brokers under test differ; times in seconds."""

    #: `embedded`, `kafka` or `external`
    kind: str
    bootstrap_servers: str
    #: a session that the broker accepts (Apache Kafka: from `group.min.session.timeout.ms` on, 6 s as shipped)
    session_timeout: float
    heartbeat_interval: float
    #: whether aiokafka's InitProducerId v0 is answered
    idempotent_producer: bool


#: Address of an Apache Kafka to run the tests against in place of the brokers that they start.
EXTERNAL = "LOOPWARDEN_TEST_BROKER"

#: Set (to anything but 0) where a machine without Java or Maven is a failure, not a reason to skip the tests on Apache Kafka.
REQUIRED = "LOOPWARDEN_REQUIRE_KAFKA"


#: Folders whose tests share something that is made once and takes long (packages of npm, a whole stack).
TOGETHER = ("compose", "node_gateway", "security")


# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


def pytest_configure() -> None:
    """Test what the sources say, not what they said when they were compiled."""
    refuse_stale_modules()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one of the processes that run them side by side, those of some folders too."""
    for item in items:
        folder, *rest = item.path.relative_to(item.config.rootpath / "tests").parts
        item.add_marker(pytest.mark.xdist_group(folder if rest and folder in TOGETHER else str(item.path)))


class RunningBrokers:
    """The brokers of this process: each kind is started when it is first wanted, and runs until the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, BrokerTraits] = {}

    def get(self, kind: str) -> BrokerTraits:
        """Return a running broker."""
        if kind not in self._running:
            self._running[kind] = self._started(kind)
        return self._running[kind]

    def _started(self, kind: str) -> BrokerTraits:
        if kind == "external":
            address = os.environ[EXTERNAL]
            times = {"session_timeout": 6.0, "heartbeat_interval": 1.0}
            return BrokerTraits(kind=kind, bootstrap_servers=address, idempotent_producer=True, **times)
        # Tansu answers the first join after half the session time-out, in steps of a second.
        times = {"session_timeout": 2.0, "heartbeat_interval": 0.5}
        context = running_kafka() if kind == "kafka" else EmbeddedBroker()
        address = self._stack.enter_context(context).bootstrap_servers
        return BrokerTraits(kind=kind, bootstrap_servers=address, idempotent_producer=kind == "kafka", **times)


@pytest.fixture(scope="session")
def running_brokers() -> Iterator[RunningBrokers]:
    """The brokers of this process."""
    with ExitStack() as stack:
        yield RunningBrokers(stack)


@pytest.fixture(scope="session", params=["external"] if EXTERNAL in os.environ else ["embedded", "kafka"])
def broker_traits(request: pytest.FixtureRequest, running_brokers: RunningBrokers) -> BrokerTraits:
    """One running broker of each kind; pytest puts all tests on the one before all tests on the other."""
    return running_brokers.get(request.param)


@contextmanager
def running_kafka(**options: Any) -> Iterator[ApacheKafka]:
    """Run an Apache Kafka; where that is impossible the test is skipped, or fails if `LOOPWARDEN_REQUIRE_KAFKA` is set."""
    require_kafka()
    with ApacheKafka(**options) as kafka:
        yield kafka


def require_kafka() -> None:
    """Skip the test, or let it fail if `LOOPWARDEN_REQUIRE_KAFKA` is set, where Apache Kafka cannot be run."""
    try:
        find_java()
        fetch_jars()
    except KafkaUnavailableError as error:
        if os.environ.get(REQUIRED, "0") != "0":
            pytest.fail(f"{REQUIRED} is set, but {error}", pytrace=False)
        pytest.skip(f"no Apache Kafka here: {error}")


@pytest.fixture(scope="session")
def kafka_installed() -> None:
    """There are Java and the jars, for tests that start the broker in another process."""
    require_kafka()


@pytest.fixture(scope="session")
def kafka_factory() -> Iterator[Callable[..., ApacheKafka]]:
    """Start an Apache Kafka of one's own: `kafka_factory(listeners=..., users=...)`; it ends with the session at the latest.

    The keywords are those of `ApacheKafka`. Use it as a context to end it sooner.
    """
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(running_kafka(**options))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that run in this process set up logging; what they write to is gone with their test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


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
        # Waits until the broker knows the topic: its controller, which makes it, does so a moment earlier.
        async with admin_client(Connection(bootstrap_servers=broker)) as client:
            spec = TopicSpec(name=name, partitions=partitions, config=dict(config))
            assert await create_specified(client, [spec], replication_factor=1, user="the tests") == [name]

    def factory(*, partitions: int = 4, name: str | None = None, config: Mapping[str, str] | None = None) -> str:
        topic = name or unique_name("topic")
        settings = {"cleanup.policy": "delete", "retention.ms": "604800000", "max.message.bytes": "1114112", **(config or {})}
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, create(topic, partitions, settings)).result()
        return topic

    return factory
