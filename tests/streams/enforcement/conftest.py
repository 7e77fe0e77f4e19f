"""Decisions, topics of a test's own, and a receiver that answers as it is told."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord

from schemas.decisions import AsOf, Decision, Origin, Target
from schemas.deliveries import Delivery
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.enforcement.receiver import Receiver
from streams.enforcement.worker import EnforcementWorker
from streams.topics_admin import create_topics

PARTITIONS = 3
PATIENCE = 60.0
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Traits(Protocol):
    """What is used of `broker_traits`."""

    bootstrap_servers: str
    session_timeout: float
    heartbeat_interval: float
    idempotent_producer: bool


async def until(holds: Callable[[], Any], *, what: str = "the condition") -> None:
    """Wait until something holds."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come true within {PATIENCE:g} s"
        await asyncio.sleep(0.02)


@pytest.fixture
def decision_factory() -> Callable[..., Decision]:
    """Make a decision with an id of its own: `decision_factory(run="r", action="abort")`."""
    numbers = iter(range(1, 1_000_000))

    def make(run: str = "run", **changes: Any) -> Decision:
        number = next(numbers)
        said: dict[str, Any] = {
            "decision_id": f"{number:032x}",
            "run_id": run,
            "action": "block",
            "level": "critical",
            "detector": "generic_repeat",
            "target": Target(scope="tool", tool="exec"),
            "count": 20,
            "message": "exec was called 20 times with the same arguments.",
            "warning_key": "key",
            "policy_version": "p",
            "engine_version": "e",
            "since": Origin(topic="t", partition=0, offset=0),
            "as_of": AsOf(topic="t", partition=0, offset=number, time=1_800_000_000_000),
            "decided_at": 1_800_000_000_000,
        }
        return Decision.model_validate(said | changes)

    return make


@dataclass
class Hook:
    """A webhook endpoint; by default it answers 200 to all."""

    url: str = ""
    #: webhook-id and run of each request, as they came and as they were answered with 2xx
    requests: list[tuple[str, str]] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    #: seconds of the event loop's clock at which each id was answered for the first time
    answered_at: dict[str, float] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    under_way: int = 0
    most_under_way: int = 0

    def answer(self, run: str, by: Answer) -> None:
        """Answer requests about a run in another way."""
        self.answers[run] = by

    def ids(self, run: str | None = None) -> list[str]:
        """Return the decision ids of the requests so far."""
        return [decision_id for decision_id, of in self.requests if run in {None, of}]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Take a request."""
        body = await request.read()
        decision = Decision.from_record(body)
        self.requests.append((request.headers["webhook-id"], decision.run_id))
        self.headers.append(dict(request.headers))
        self.bodies.append(body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            response = await self.answers.get(decision.run_id, _ok)(request)
        finally:
            self.under_way -= 1
        if 200 <= response.status < 300:
            self.answered[decision.decision_id] += 1
            self.answered_at.setdefault(decision.decision_id, asyncio.get_running_loop().time())
        return response


async def _ok(request: web.Request) -> web.Response:
    return web.Response()


def status(*codes: int, **headers: str) -> Answer:
    """Answer with these codes one after another, with the last one for ever."""
    left = list(codes)

    async def answer(request: web.Request) -> web.Response:
        code = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=code, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    """An endpoint on a free port; what is still unanswered at the end is broken off."""
    made = Hook()
    application = web.Application()
    application.router.add_post("/hook", made.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}/hook"
    yield made
    await runner.cleanup()


class Scene:
    """Topics, a group and workers of one test."""

    def __init__(self, settings: Settings, group: str, folder: Path) -> None:
        self.settings = settings
        self.group = group
        self.log = folder / "enforce.log"
        self.topics = settings.topics
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connection = Connection.from_settings(settings)

    async def create(self) -> None:
        """Create the topics."""
        await create_topics(self._connection, self.topics, partitions=PARTITIONS)

    async def send(
        self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]]
    ) -> None:
        """Send records: partition, key, value, headers."""
        producer = AIOKafkaProducer(**self._connection.client_options())
        await producer.start()
        try:
            for partition, key, value, headers in records:
                await producer.send_and_wait(topic, value, key=key, partition=partition, headers=list(headers))
        finally:
            await producer.stop()

    async def publish(self, *decisions: Decision) -> None:
        """Publish decisions as a worker does."""
        await self.send(
            self.topics.decisions,
            [
                (partition_of(one.run_id, PARTITIONS), one.run_id.encode(), one.to_record(source="/tests"), ())
                for one in decisions
            ],
        )

    @asynccontextmanager
    async def worker(self, receiver: Receiver, **options: Any) -> AsyncIterator[EnforcementWorker]:
        """Run a worker in this process; it is stopped at the end of the block."""
        made = EnforcementWorker(receiver, settings=self.settings, group=self.group, **options)
        stop = asyncio.Event()
        running = asyncio.create_task(made.run(stop))
        try:
            yield made
            assert not running.done(), "the worker ended by itself"
        finally:
            stop.set()
            await running

    def process(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start `loopwarden enforce ...` in a process of its own; it is killed at the end of the test at the latest."""
        settings = {
            f"LOOPWARDEN_{name.upper()}": str(value) for name, value in self.settings.model_dump().items() if value is not None
        }
        given = {
            **os.environ,
            **settings,
            "LOOPWARDEN_WEBHOOK_SECRET": SECRET,
            "LOOPWARDEN_ENFORCE_GROUP": self.group,
            **environment,
        }
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", "streams.cli", "enforce", *arguments], env=given, stdout=log, stderr=log
            )
        self._processes.append(started)
        return started

    def kill_processes(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()

    async def records(self, topic: str) -> list[ConsumerRecord]:
        """Read what is in a topic, in order within each partition."""
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer = AIOKafkaConsumer(**self._connection.client_options(), auto_offset_reset="earliest", fetch_max_wait_ms=100)
        await consumer.start()
        try:
            consumer.assign(places)
            found: list[ConsumerRecord] = []
            while any([consumer.highwater(at) is None or await consumer.position(at) < consumer.highwater(at) for at in places]):
                found += [record for records in (await consumer.getmany(timeout_ms=100)).values() for record in records]
            return found
        finally:
            await consumer.stop()

    async def deliveries(self) -> list[Delivery]:
        """Read the deliveries topic."""
        return [Delivery.from_record(record.value) for record in await self.records(self.topics.deliveries)]

    async def delivered(self, count: int) -> None:
        """Wait until so many deliveries are recorded."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if len(await self.deliveries()) >= count:
                    return

    async def dead_letters(self, count: int = 1) -> list[ConsumerRecord]:
        """Wait for a number of dead letters of decisions."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.records(self.topics.dead_letters(self.topics.decisions))
                if len(found) >= count:
                    return found

    async def committed(self) -> dict[int, int | None]:
        """Return the committed offset of each partition."""
        consumer = AIOKafkaConsumer(**self._connection.client_options(), group_id=self.group, enable_auto_commit=False)
        await consumer.start()
        try:
            return {
                number: await consumer.committed(TopicPartition(self.topics.decisions, number)) for number in range(PARTITIONS)
            }
        finally:
            await consumer.stop()


@pytest.fixture
async def scene(broker_traits: Traits, unique_name: Callable[[str], str], tmp_path: Path) -> AsyncIterator[Scene]:
    """Topics under a prefix of this test's own."""
    name = unique_name("enforce")
    settings = Settings(
        bootstrap_servers=broker_traits.bootstrap_servers,
        topic_prefix=f"{name}.",
        group=name,
        session_timeout=broker_traits.session_timeout,
        heartbeat_interval=broker_traits.heartbeat_interval,
        idempotent_producer=broker_traits.idempotent_producer,
    )
    made = Scene(settings, f"{name}-group", tmp_path)
    await made.create()
    yield made
    made.kill_processes()
