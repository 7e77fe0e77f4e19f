"""The enforcement worker: a consumer group over the decisions topic that hands decisions to one receiver."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from schemas.settings import Settings
from streams.connection import Connection
from streams.enforcement import metrics
from streams.enforcement.decision_filter import DecisionFilter
from streams.enforcement.delivery_log import DeliveryLog
from streams.enforcement.partition_work import EnforcementLimits, PartitionWork
from streams.enforcement.receiver import Receiver
from streams.enforcement.watched_receiver import WatchedReceiver
from streams.transport.lease import Lease, watch

#: Seconds between commits of offsets. What is read again after a crash is known by its ids, so this only bounds the reading.
COMMIT_INTERVAL = 1.0

#: The longest wait in seconds for attempts under way when partitions move. Other members of the group wait as long.
LONGEST_HANDOVER = 30.0

#: Seconds that a worker may take to stop: attempts under way have a half of it, leaving the group the rest.
STOP_WITHIN = 9.0

#: Seconds for the commit when partitions are given back.
_COMMIT_GRACE = 1.5

#: Seconds until what the broker did not answer is tried again.
_RETRY_INTERVAL = 1.0

#: Seconds between two looks whether the partition is surely ours (again).
_LEASE_LOOK_INTERVAL = 0.05

#: Milliseconds that a fetch may wait at the broker for new decisions.
_FETCH_MAX_WAIT_MS = 500

log = structlog.get_logger("loopwarden.enforcement")


class EnforcementWorker:
    """Reads decisions as a member of `group` and hands those that `chosen` lets through to the receiver.

    Brokers, topics, session and heartbeat are those of the settings. `run` may be called once. `stop_within` are the
    seconds that it takes at most once it is told to stop.
    """

    def __init__(
        self,
        receiver: Receiver,
        *,
        settings: Settings,
        group: str,
        chosen: DecisionFilter | None = None,
        limits: EnforcementLimits | None = None,
    ) -> None:
        self.stop_within = STOP_WITHIN
        self._receiver = WatchedReceiver(receiver)
        self._settings = settings
        self._topic = settings.topics.decisions
        self._group = group
        self._chosen = chosen or DecisionFilter()
        self._limits = limits or EnforcementLimits()
        connection = Connection.from_settings(settings)
        self._connection = connection
        self._deliveries = DeliveryLog(connection, settings.topics, group=group, idempotent=settings.idempotent_producer)
        self._lease = Lease(session_timeout=settings.session_timeout)
        self._work: dict[int, PartitionWork] = {}
        self._committed: dict[int, int] = {}
        self._taking_over: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None]
        self._consumer: AIOKafkaConsumer

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then wait for attempts under way, commit and leave the group, within `stop_within`.

        Raises `aiokafka.errors.KafkaError` when the broker cannot be reached at the start or refuses for good later.
        """
        self._failed = asyncio.get_running_loop().create_future()
        handover = min(self._receiver.attempt_timeout + 1.0, LONGEST_HANDOVER)
        self._consumer = AIOKafkaConsumer(
            **self._connection.client_options(),
            group_id=self._group,
            client_id="loopwarden-enforce",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_MAX_WAIT_MS,
            session_timeout_ms=round(self._settings.session_timeout * 1000),
            heartbeat_interval_ms=round(self._settings.heartbeat_interval * 1000),
            rebalance_timeout_ms=round((self._settings.session_timeout + handover) * 1000),
        )
        stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
        working: asyncio.Task[Any] = asyncio.create_task(self._work_as_member(handover))
        try:
            ends: tuple[asyncio.Future[Any], ...] = (stopping, working, self._failed)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for ended in (working, self._failed):
                if ended.done():
                    ended.result()
        finally:
            for task in (stopping, working):
                task.cancel()
            await asyncio.gather(stopping, working, return_exceptions=True)
            await self._end()

    async def _work_as_member(self, handover: float) -> None:
        await self._deliveries.start()
        await self._consumer.start()
        # Before the group is joined: aiokafka has no public way to learn of heartbeats.
        watch(self._consumer._coordinator, self._lease)
        self._consumer.subscribe([self._topic], listener=_Rebalances(self, handover))
        committing = asyncio.create_task(self._commit_now_and_then())
        try:
            await self._read()
        finally:
            committing.cancel()

    # -- reading ---------------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            try:
                fetched = await self._consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.warning("cannot read, trying again", error=type(error).__name__)
                await asyncio.sleep(_RETRY_INTERVAL)
                continue
            for place, records in fetched.items():
                work = self._work.get(place.partition)
                if work is None:  # not ours any more; whoever has the partition reads them again
                    continue
                for record in records:
                    work.accept(record)
            self._read_on_or_not()
            metrics.UNHANDLED.labels(self._receiver.kind).set(sum(work.unhandled for work in self._work.values()))

    def _read_on_or_not(self) -> None:
        paused = self._consumer.paused()
        for place in self._consumer.assignment():
            work = self._work.get(place.partition)
            if work is None:
                continue
            if work.full and place not in paused:
                self._consumer.pause(place)
            elif not work.full and place in paused:
                self._consumer.resume(place)

    async def _ensure_owned(self) -> None:
        """Wait until the partitions are certainly still ours: another worker may hand the same decisions over by now."""
        while not self._lease.held:  # noqa: ASYNC110 - it ends by the clock, which sets no event
            await asyncio.sleep(_LEASE_LOOK_INTERVAL)

    # -- committing ------------------------------------------------------------------------------------------------------------

    async def _commit_now_and_then(self) -> None:
        try:
            while True:
                await asyncio.sleep(COMMIT_INTERVAL)
                await self._commit()
        except KafkaError as error:
            self._fail(error)

    async def _commit(self) -> None:
        positions = {number: work.position for number, work in self._work.items()}
        changed = {number: at for number, at in positions.items() if at is not None and at != self._committed.get(number)}
        if not changed:
            return
        try:
            await self._consumer.commit({TopicPartition(self._topic, number): at for number, at in changed.items()})
        except (CommitFailedError, IllegalStateError) as error:
            # The partitions are another's, who knows from the deliveries topic what is handled.
            log.info("offsets not committed", reason=type(error).__name__)
        else:
            self._committed |= changed

    # -- partitions come and go ------------------------------------------------------------------------------------------------

    def take_over(self, partitions: Iterable[int]) -> None:
        """Begin with partitions; their decisions wait until it is known what was handled before."""
        for number in partitions:
            self._work[number] = PartitionWork(
                receiver=self._receiver,
                deliveries=self._deliveries,
                group=self._group,
                chosen=self._chosen,
                limits=self._limits,
                owned=self._ensure_owned,
                on_failure=self._fail,
            )
        # Not awaited by the one who calls: a member that has just joined sends no heartbeats until the call returns.
        self._taking_over = asyncio.create_task(self._begin(dict(self._work)))

    async def _begin(self, works: dict[int, PartitionWork]) -> None:
        try:
            while True:
                try:
                    handled = await self._deliveries.read_back(list(works), limit=self._limits.remember)
                    break
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    log.warning("cannot read deliveries, trying again", error=type(error).__name__)
                    await asyncio.sleep(_RETRY_INTERVAL)
        except Exception as error:
            self._fail(error)  # without the ids nothing can be handed over
            return
        for number, work in works.items():
            work.begin(handled[number])
        ids = sum(len(ids) for ids in handled.values())
        log.info("partitions taken over", partitions=sorted(works), remembered_decisions=ids)

    async def give_back(self, *, grace: float) -> None:
        """End with all partitions, and commit how far they came."""
        if self._taking_over is not None:
            self._taking_over.cancel()
            await asyncio.gather(self._taking_over, return_exceptions=True)
        await asyncio.gather(*(work.stop(grace=grace) for work in self._work.values()))
        try:
            async with asyncio.timeout(_COMMIT_GRACE):
                await self._commit()
        except (TimeoutError, KafkaError) as error:
            log.warning("offsets not committed; the deliveries topic tells what is handled", reason=type(error).__name__)
        self._work.clear()
        self._committed.clear()

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.stop_within
        await self.give_back(grace=self.stop_within / 2)
        await self._receiver.close()
        with contextlib.suppress(TimeoutError):
            # A member that is joining again just now can only leave when it has joined.
            async with asyncio.timeout_at(max(end, loop.time() + _COMMIT_GRACE)):
                await asyncio.gather(self._consumer.stop(), self._deliveries.stop(), return_exceptions=True)
        if self._failed.done():
            self._failed.exception()  # it was told, or it is not the first failure


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    def __init__(self, worker: EnforcementWorker, handover: float) -> None:
        self._worker = worker
        self._handover = handover

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._worker.give_back(grace=self._handover)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._worker.take_over(place.partition for place in assigned)
