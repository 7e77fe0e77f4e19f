"""One group of workers on topics of its own: publishes, starts workers, waits, and judges what came out."""

import asyncio
import json
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer

from schemas.policy import PolicyDocument, read_policy
from schemas.policy_records import DEFAULT_KEY, policy_record
from schemas.settings import Settings
from schemas.topics import TopicSpec
from streams.connection import Connection
from streams.processor import partition_policy
from streams.topics_admin import admin_client, create_specified
from tests.faults.checking import Differences, LogReader, compare, expect, observe
from tests.faults.making.brokers import Broker
from tests.faults.making.plan import FaultPlan
from tests.faults.making.worker_processes import Worker
from tests.faults.workload.events import Input

PARTITIONS = 4

#: Seconds until something that should happen is given up; the machine may be busy.
PATIENCE = 120.0

POLICY: Mapping[str, Any] = {"tools": {"loopDetection": {"enabled": True}}}

_LOOK = 0.05


class FaultError(AssertionError):
    """A fault did not go as it must; the message says what, and ends with what the workers logged."""


class Scene:
    """Topics, a group, its workers, and what has been published to them.

    `settings` are changes of the workers' settings, `changelog_config` changes of the settings of the changelog.
    """

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        *,
        policy: Mapping[str, Any] = POLICY,
        settings: Mapping[str, Any] | None = None,
        changelog_config: Mapping[str, str] | None = None,
    ) -> None:
        self.broker = broker
        self.name = f"f{uuid.uuid4().hex[:10]}"
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)
        policy_file = self.folder / "policy.json"
        policy_file.write_text(json.dumps(policy))
        self.policy: PolicyDocument = read_policy(policy_file)
        self.settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix=f"{self.name}.",
            group=self.name,
            policy_file=policy_file,
            commit_interval=0.2,
            session_timeout=broker.session_timeout,
            heartbeat_interval=broker.heartbeat_interval,
            idempotent_producer=broker.idempotent_producer,
            data_dir=self.folder / "data",
        ).model_copy(update=dict(settings or {}))
        self._changelog_config = dict(changelog_config or {})
        self.workers: list[Worker] = []
        self.ends: dict[tuple[str, int], int] = {}
        self.published = 0
        self._enough = False
        # A day ago: a broker refuses what is dated in the future.
        self._first_timestamp = int(time.time() * 1000) - 24 * 3600 * 1000
        self._stack = AsyncExitStack()
        self._producer: AIOKafkaProducer
        self.reader: LogReader

    async def __aenter__(self) -> Self:
        await self.create_topics()
        # Long time-outs: a broker that is away is part of the plan.
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers,
            acks="all",
            request_timeout_ms=180_000,
            max_batch_size=256 * 1024,
            max_request_size=32 * 1024 * 1024,
        )
        await self._producer.start()
        self._stack.push_async_callback(self._producer.stop)
        self.reader = await self._stack.enter_async_context(LogReader(self.settings.bootstrap_servers, group=self.settings.group))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self.workers:
            worker.close()
        await self._stack.aclose()

    # -- topics ----------------------------------------------------------------------------------------------------------------

    async def create_topics(self, names: Iterable[str] | None = None, config: Mapping[str, str] | None = None) -> None:
        """Create all topics, or the named ones, with changes of their settings."""
        wanted = None if names is None else set(names)
        specs = self.settings.topics.specs(
            partitions=PARTITIONS, max_event_bytes=self.settings.max_event_bytes, group=self.settings.group
        )
        changelog = self.settings.topics.changelog(self.settings.group)
        changes = {changelog: self._changelog_config}
        await self.create(
            {
                spec.name: (spec.partitions, {**spec.config, **changes.get(spec.name, {}), **(config or {})})
                for spec in specs
                if wanted is None or spec.name in wanted
            }
        )

    async def create(self, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        """Create topics with partition counts and settings."""
        specs = [TopicSpec(name=name, partitions=count, config=dict(config)) for name, (count, config) in topics.items()]
        async with admin_client(Connection(bootstrap_servers=self.broker.bootstrap_servers)) as client:
            made = await create_specified(client, specs, replication_factor=1, user="the scene")
        if there := topics.keys() - set(made):
            raise FaultError(f"topics are there already: {sorted(there)}")

    async def delete(self, *names: str) -> None:
        """Delete topics."""
        async with admin_client(Connection(bootstrap_servers=self.broker.bootstrap_servers)) as client:
            await client.delete_topics(list(names))

    # -- workers ---------------------------------------------------------------------------------------------------------------

    def start_worker(self, plan: FaultPlan | None = None, *, data_dir: str = "data", **changes: Any) -> Worker:
        """Start a worker; it is killed at the end of the scene at the latest."""
        folder = self.folder / data_dir
        settings = self.settings.model_copy(update={"data_dir": folder, **changes})
        worker = Worker(settings, log_path=self.folder / f"worker-{len(self.workers)}.log", plan=plan)
        self.workers.append(worker)
        return worker

    async def until(self, condition: Callable[[], Any], what: str, *, patience: float = PATIENCE) -> float:
        """Wait for other processes, which cannot be awaited; return the seconds that it took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > patience:
                raise self.failure(f"not within {patience:.0f} s: {what}")
            await asyncio.sleep(_LOOK)
        return time.monotonic() - began

    async def until_ended(self, worker: Worker, *, patience: float = PATIENCE) -> int:
        """Wait for a worker to end and return its exit code."""
        await self.until(lambda: not worker.alive, "the worker ends", patience=patience)
        code = worker.exit_code
        assert code is not None
        return code

    async def until_taken_over(self, worker: Worker, times: int = 1) -> None:
        """Wait until a worker has had partitions assigned so many times."""
        await self.until(lambda: len(worker.takeovers()) >= times or not worker.alive, "partitions are taken over")
        if not worker.alive:
            raise self.failure(f"the worker has ended with exit code {worker.exit_code}")

    def failure(self, message: str) -> FaultError:
        """Return an error that ends with the last lines of each worker's log, and what those that are left are at."""
        for worker in self.workers:
            worker.send(signal.SIGUSR1)
        time.sleep(0.5)  # for them to write it
        logs = [f"{worker.log_path.name}:\n" + "\n".join(worker.log_text().splitlines()[-60:]) for worker in self.workers[-4:]]
        return FaultError("\n".join([message, *logs]))

    # -- records ---------------------------------------------------------------------------------------------------------------

    async def publish(self, records: Sequence[Input], *, rate: float | None = None) -> None:
        """Publish records in order, `rate` of them a second, and wait until the broker has them.

        Their timestamps count up, so that the order over both topics can be told later.
        """
        waiting: list[asyncio.Future[Any]] = []
        began = time.monotonic()
        for number, record in enumerate(records):
            if self._enough:
                break
            if rate is not None and (early := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(early)
            waiting.append(await self._send(record))
            self.published += 1
            if len(waiting) >= (5000 if rate is None else 50):
                await self._acknowledged(waiting)
        await self._acknowledged(waiting)

    async def _send(self, record: Input) -> asyncio.Future[Any]:
        topic, timestamp = record.topic_name(self.settings.topics), self._first_timestamp + self.published
        fields = {"key": record.key, "value": record.value, "headers": list(record.headers)}
        sent: asyncio.Future[Any]
        if record.key is None and record.value is None:  # others may write such a record; this client refuses it
            batch = self._producer.create_batch()
            batch.append(**fields, timestamp=timestamp)
            sent = await self._producer.send_batch(batch, topic, partition=record.partition)
        else:
            sent = await self._producer.send(topic, **fields, partition=record.partition, timestamp_ms=timestamp)
        return sent

    async def write_changelog(self, records: Iterable[tuple[int, bytes, bytes | None]]) -> None:
        """Write partitions, keys and values to the changelog of the runs, and wait until the broker has them."""
        topic, waiting = self.settings.topics.changelog(self.settings.group), []
        for partition, key, value in records:
            waiting.append(await self._producer.send(topic, value, key=key, partition=partition))
        await asyncio.gather(*waiting)

    async def publish_policy(self, document: Mapping[str, Any]) -> None:
        """Publish a policy for all agents."""
        self.policy = PolicyDocument.from_mapping(dict(document))
        value = policy_record(DEFAULT_KEY, self.policy, source="/faults", time=int(time.time() * 1000))
        await self._producer.send_and_wait(self.settings.topics.policies, value, key=DEFAULT_KEY.encode())

    async def until_judged(self, worker: Worker) -> None:
        """Wait until every partition has judged all its runs by the policy that was published last."""
        began = time.monotonic()
        while not await self._is_judged():
            if not worker.alive or time.monotonic() - began > PATIENCE:
                raise self.failure("not all partitions are judged by the latest policy")
            await asyncio.sleep(_LOOK)

    async def _is_judged(self) -> bool:
        changelog = await self.reader.read(self.settings.topics.changelog(self.settings.group), PARTITIONS)
        for number, records in enumerate(changelog):
            stored = [record.value for record in records if record.key == partition_policy.POLICY_KEY]
            if not stored:
                return False
            policy = partition_policy.decode(number, stored[-1])
            if not policy.judged or policy.document().version != self.policy.version:
                return False
        return True

    async def final_states(self) -> dict[tuple[int, str], bytes]:
        """Return the stored states of the runs that have not ended, by partition and run id."""
        return (await observe(self.reader, settings=self.settings, partitions=PARTITIONS)).states

    async def states_left(self) -> int:
        """Return how many runs have a state in the changelog, the stubs of those that have ended included."""
        outcome = await observe(self.reader, settings=self.settings, partitions=PARTITIONS)
        return len(outcome.states) + len(outcome.ended)

    async def _acknowledged(self, waiting: list[asyncio.Future[Any]]) -> None:
        for written in await asyncio.gather(*waiting):
            place = (written.topic, written.partition)
            self.ends[place] = max(self.ends.get(place, 0), written.offset + 1)
        waiting.clear()

    @property
    def sent(self) -> dict[tuple[str, int], int]:
        """The ends of the input partitions as far as the broker has acknowledged."""
        return dict(self.ends)

    @asynccontextmanager
    async def publishing(self, records: Sequence[Input], *, rate: float) -> AsyncIterator[None]:
        """Publish in the background; at the end of the block, publish no more than has been sent, and wait for that."""
        task = asyncio.ensure_future(self.publish(records, rate=rate))
        try:
            yield
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        self._enough = True
        await task
        self._enough = False

    async def behind(self, ends: Mapping[tuple[str, int], int] | None = None) -> int:
        """Return how many records are published and not committed."""
        wanted = dict(self.ends if ends is None else ends)
        committed = [await self.reader.committed(*place) for place in wanted]
        return sum(max(0, end - at) for end, at in zip(wanted.values(), committed, strict=True))

    async def _behind_the_ends(self) -> int:
        behind = 0
        for topic in self.settings.topics.inputs:
            committed = [await self.reader.committed(topic, number) for number in range(PARTITIONS)]
            ends = await self.reader.ends(topic, committed)
            behind += sum(max(0, end - at) for end, at in zip(ends, committed, strict=True))
        return behind

    async def caught_up(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Wait until what had been published before is committed, while more comes in."""
        began = time.monotonic()
        while await self.behind(ends):
            if time.monotonic() - began > PATIENCE:
                raise self.failure(f"{await self.behind(ends)} records are not committed after {PATIENCE:.0f} s")
            await asyncio.sleep(_LOOK)

    async def until_committed(self, *, patience: float = PATIENCE, supervise: bool = False) -> float:
        """Wait until the group has committed all that was published, and what it has sent on itself; return the seconds.

        With `supervise` a worker that ends is started again, as an orchestrator does.
        """
        began = time.monotonic()
        while await self.behind() or await self._behind_the_ends():
            if time.monotonic() - began > patience:
                raise self.failure(f"{await self.behind()} records are not committed after {patience:.0f} s")
            if not any(worker.alive for worker in self.workers):
                if not supervise:
                    raise self.failure("no worker is left")
                self.start_worker()
            await asyncio.sleep(_LOOK)
        return time.monotonic() - began

    # -- the verdict -----------------------------------------------------------------------------------------------------------

    async def verdict(self, *, untouched: Mapping[tuple[int, str], bytes] | None = None) -> Differences:
        """Compare what came out with what the engine alone makes of the records on the input topics.

        `untouched` are states that have been in the changelog from the beginning and that no event was about.
        Stop the workers before, or wait until all is committed: what is under way is missing.
        """
        inputs = {topic: await self.reader.read(topic, PARTITIONS) for topic in self.settings.topics.inputs}
        expected = expect(inputs, settings=self.settings, policy=self.policy)
        expected.states.update(untouched or {})
        observed = await observe(self.reader, settings=self.settings, partitions=PARTITIONS)
        found = compare(expected, observed)
        there = sum(map(len, (records for partitions in inputs.values() for records in partitions)))
        if there < self.published:
            found.missing += self.published - there
            found.examples.append(f"{self.published} records were published, {there} are on the input topics")
        if not expected.decisions or not expected.states:
            raise FaultError("the workload brings no decisions or no states: it shows nothing")
        return found
