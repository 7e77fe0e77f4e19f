"""The decisions of one partition on their way to the receiver: in order within a run, runs beside each other."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from schemas.cloudevents import InvalidEventError
from schemas.deliveries import Delivery
from streams.enforcement import metrics
from streams.enforcement.decision_filter import DecisionFilter
from streams.enforcement.delivery_log import DeliveryLog
from streams.enforcement.envelope import DecisionEnvelope, read_envelope
from streams.enforcement.offset_ledger import OffsetLedger
from streams.enforcement.receiver import NoAnswerError, NotHandedOverError, Receiver
from streams.enforcement.recent_ids import RecentIds
from streams.enforcement.retrying import Attempts, hand_over_with_retries

#: Records of a partition that are read and not handled; with more of them it is not read on.
MOST_UNHANDLED = 500

log = structlog.get_logger("loopwarden.enforcement")


@dataclass(frozen=True, kw_only=True, slots=True)
class EnforcementLimits:
    """How much is done at a time, for how long it is tried (seconds), and how many ids are remembered.

    `concurrency` attempts run beside each other for each partition. A decision is given up `give_up_after` seconds after it was
    read, but not before one attempt. `remember` ids are kept for each partition.
    """

    concurrency: int = 8
    give_up_after: float = 300.0
    remember: int = 20_000


@dataclass(frozen=True, slots=True)
class _Pending:
    record: Any
    envelope: DecisionEnvelope
    attempts: Attempts


class PartitionWork:
    """Takes the records of a partition as they are read, and has each decision handed over or dead-lettered.

    Nothing is handed over before `begin` has told which decisions were handled before. `owned` waits until the partition is
    certainly this worker's; `on_failure` is told of errors after which the worker cannot go on.
    """

    def __init__(
        self,
        *,
        receiver: Receiver,
        deliveries: DeliveryLog,
        group: str,
        chosen: DecisionFilter,
        limits: EnforcementLimits,
        owned: Callable[[], Awaitable[None]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._receiver = receiver
        self._deliveries = deliveries
        self._group = group
        self._chosen = chosen
        self._limits = limits
        self._owned = owned
        self._on_failure = on_failure
        self._ledger = OffsetLedger()
        self._handled = RecentIds(limits.remember)
        self._begun = asyncio.Event()
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._runs: dict[str, deque[_Pending]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[Any]] = set()
        self._stopping = False

    # -- towards the worker ----------------------------------------------------------------------------------------------------

    def begin(self, handled: RecentIds) -> None:
        """Go to work: these decisions were handled before."""
        self._handled = handled
        self._begun.set()

    def accept(self, record: Any) -> None:
        """Take the next record of the partition (an aiokafka `ConsumerRecord`)."""
        self._ledger.read(record.offset)
        try:
            envelope = read_envelope(record)
        except InvalidEventError as error:
            self._start(self._dead_letter_unreadable(record, error))
            return
        if envelope is None:
            self._done(record, "other")
        elif not self._chosen.lets_through(envelope.decision):
            self._done(record, "filtered")
        else:
            pending = _Pending(record, envelope, Attempts(deadline=time.monotonic() + self._limits.give_up_after))
            queue = self._runs.get(envelope.decision.run_id)
            if queue is not None:
                queue.append(pending)
            else:
                self._runs[envelope.decision.run_id] = queue = deque([pending])
                self._start(self._work_off(envelope.decision.run_id, queue))

    @property
    def position(self) -> int | None:
        """The offset that may be committed; None before anything was read."""
        return self._ledger.position

    @property
    def unhandled(self) -> int:
        """How many records wait."""
        return self._ledger.unhandled

    @property
    def full(self) -> bool:
        """Whether the partition must not be read on for now.

        After a crash, all that was handled ahead is read again; its ids must still be among those that are remembered.
        """
        return self._ledger.unhandled >= MOST_UNHANDLED or self._ledger.ahead >= self._limits.remember // 2

    async def stop(self, *, grace: float) -> None:
        """Begin no more attempts, wait up to `grace` seconds for those under way, and break off the rest."""
        self._stopping = True
        for task in self._tasks - self._busy:
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy, timeout=grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- a run -----------------------------------------------------------------------------------------------------------------

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def _work_off(self, run_id: str, queue: deque[_Pending]) -> None:
        await self._begun.wait()
        gave_up: NoAnswerError | None = None
        while queue:
            pending = queue[0]
            if pending.envelope.decision.decision_id in self._handled:
                self._done(pending.record, "copy")
            elif gave_up is not None and pending.attempts.late:
                # The receiver did not answer this run for the whole time of this decision too. To try each of a long queue
                # once more would keep the other runs of a full partition waiting.
                await self._give_up(pending, gave_up)
            else:
                gave_up = await self._hand_over(pending)
            queue.popleft()
        del self._runs[run_id]

    async def _hand_over(self, pending: _Pending) -> NoAnswerError | None:
        """Hand a decision over or dead-letter it; return the failure when the time for it was over."""
        try:
            await hand_over_with_retries(self._receiver, pending.envelope, pending.attempts, turn=lambda: self._turn(pending))
        except NotHandedOverError as failure:
            await self._give_up(pending, failure)
            return failure if isinstance(failure, NoAnswerError) else None
        return None

    @asynccontextmanager
    async def _turn(self, pending: _Pending) -> AsyncIterator[None]:
        """One attempt: when there is a free slot and the partition is ours. What it handed over is recorded before it ends."""
        async with self._slots:
            await self._owned()
            async with self._uninterrupted():
                yield
                await self._record(pending, "delivered")
        decided_at = pending.envelope.decision.decided_at
        if decided_at is not None:
            metrics.DELAY.labels(self._receiver.kind).observe(max(time.time() - decided_at / 1000, 0.0))

    @asynccontextmanager
    async def _uninterrupted(self) -> AsyncIterator[None]:
        """Run what `stop` waits for."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        if self._stopping:
            raise asyncio.CancelledError
        self._busy.add(task)
        try:
            yield
        finally:
            self._busy.discard(task)
            if self._stopping:
                # Also after a failed attempt: the next one is for whoever has the partition then.
                task.cancel()

    async def _give_up(self, pending: _Pending, failure: NotHandedOverError) -> None:
        decision, made = pending.envelope.decision, pending.attempts.made
        reason = f"{failure}; {made} attempt{'' if made == 1 else 's'}"
        async with self._uninterrupted():
            await self._deliveries.dead_letter(pending.record, code=failure.code, message=reason, attempts=made)
            await self._record(pending, "dead_lettered")
        metrics.DEAD_LETTERS.labels(self._receiver.kind, failure.code).inc()
        log.warning(
            "decision dead-lettered",
            at=str(pending.envelope.origin),
            decision_id=decision.decision_id,
            code=failure.code,
            reason=reason,
        )

    async def _record(self, pending: _Pending, outcome: Literal["delivered", "dead_lettered"]) -> None:
        delivery = Delivery(
            decision_id=pending.envelope.decision.decision_id,
            run_id=pending.envelope.decision.run_id,
            group=self._group,
            outcome=outcome,
            attempts=pending.attempts.made,
            decision=pending.envelope.origin,
            at=int(time.time() * 1000),
        )
        await self._deliveries.write(delivery, key=pending.record.key)
        self._handled.add(delivery.decision_id)
        self._done(pending.record, outcome)

    async def _dead_letter_unreadable(self, record: Any, error: InvalidEventError) -> None:
        await self._begun.wait()
        await self._owned()
        async with self._uninterrupted():
            await self._deliveries.dead_letter(record, code=error.code, message=str(error), attempts=0)
            self._done(record, "dead_lettered")
        metrics.DEAD_LETTERS.labels(self._receiver.kind, error.code).inc()
        place = f"{record.topic}[{record.partition}]@{record.offset}"
        log.warning("record dead-lettered", at=place, code=error.code, reason=str(error))

    def _done(self, record: Any, result: str) -> None:
        self._ledger.done(record.offset)
        metrics.RECORDS.labels(self._receiver.kind, result).inc()
