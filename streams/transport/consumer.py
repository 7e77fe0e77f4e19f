"""Delivers slices of partitions to agents, and commits only what they have done."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiokafka import errors
from faust.exceptions import ImproperlyConfigured
from faust.transport.consumer import ensure_TP, ensure_TPset
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.transport.batch import Batch, BatchMessage, StaleBatch
from streams.transport.fetch_thread import FetchThread
from streams.transport.foreign_stores import discard_foreign_stores
from streams.transport.partition_lease import PartitionLease
from streams.transport.progress import Delivery, Progress
from streams.transport.records import RecordSlice
from streams.transport.rounds import Round, Slices, next_round
from streams.transport.table import BatchTable
from streams.transport.topic import BatchTopic

#: Batches of all partitions that are delivered and not processed. Enough that the agent never waits for a fetch, few
#: enough that a rebalance, which lets go of them all, repeats little.
MAX_UNPROCESSED = 8

#: Seconds a fetch may wait for records: also the longest that a newly resumed partition goes unnoticed.
FETCH_TIMEOUT = 0.2

#: Seconds between two looks when there is nothing to fetch from, or no lease to work under.
IDLE = 0.05


class Consumer(driver.Consumer):
    """Faust's consumer with batches for `BatchTopic`s; other topics (and changelogs) are delivered as Faust does.

    What differs for batch topics: one event is a slice of each partition; offsets move over done batches only, whatever
    Faust acks; and nothing is lost around seeks and rebalances. For that, one lock is held over a fetch and its
    delivery, and over a seek; aiokafka gets a frozen set of partitions (an empty live set means "all" to it);
    partitions are held back until Faust's flow itself resumes (in between it clears the agents' queues); and partitions
    without a commit go back to their first delivered offset in a seek.
    """

    _thread: FetchThread

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lease = PartitionLease(session_timeout=self.app.conf.broker_session_timeout)
        self._progress: Progress[TP] = Progress()
        self._batch_topics: dict[str, BatchTopic] = {}
        self._held_back: set[TP] = set()
        self._first_offsets: dict[TP, int] = {}
        self._next_offsets: dict[TP, int] = {}
        self._delivery_lock = asyncio.Lock()
        self._commit_lock = asyncio.Lock()
        self._room = asyncio.Event()
        self._must_start_over = False
        self._released_for_good = False

    def _new_consumer_thread(self) -> FetchThread:
        return FetchThread(self, loop=self.loop, beacon=self.beacon)

    # -- what batches ask and tell
    # ----------------------------------------------------------------------------------------------

    def reason_to_stop(self, delivery: Delivery) -> str | None:
        """Say why a delivery must not be written for; when only the lease is over, have its offsets delivered again."""
        if not delivery.valid:
            return "it was taken back"
        if delivery.generation != self.app.consumer_generation_id:
            return f"its generation {delivery.generation} is over, the group is in {self.app.consumer_generation_id}"
        if not self.lease.held:
            self.take_back_all()
            return f"no heartbeat was answered in time (lease over for {-self.lease.remaining:.1f} s)"
        return None

    def on_processed(self, delivery: Delivery) -> None:
        """Make room for the next delivery."""
        self._progress.mark_processed(delivery)
        self._room.set()

    def on_done(self, delivery: Delivery) -> None:
        """Let the offsets of the delivery be committed."""
        self._progress.mark_done(delivery)

    def take_back_all(self) -> None:
        """Make all that is delivered void; deliveries start over at the committed offsets."""
        self._progress.take_back_all()
        self._must_start_over = True
        self._room.set()

    async def is_processed_up_to(self, tp: TP, end: int) -> bool:
        """Whether every record of a partition before offset `end` that can be read was delivered and processed."""
        if self._next_offsets.get(tp, 0) < end:
            # Offsets at the end of a partition may hold nothing to deliver (markers of transactions): the client is past them.
            async with self._delivery_lock:
                if (await self.position(tp) or 0) < end:
                    return False
        return not self._progress.has_unprocessed(tp)

    def committed_offset(self, tp: TP) -> int:
        """Return the offset at which a successor would go on, 0 before the first commit."""
        return self._committed_offset[tp] or 0

    # -- committing
    # -------------------------------------------------------------------------------------------------------------

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit the done prefix of every partition; return whether anything was committed.

        Unlike Faust's it never returns because another commit was under way: when it returns, what was done before the
        call has been offered to the broker.
        """
        if self.app.client_only:
            return False
        async with self._commit_lock:
            return bool(await self.force_commit(topics, start_new_transaction=start_new_transaction))

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        batched = [tp for tp in self._progress.partitions() if topics is None or tp in topics or tp.topic in topics]
        others = [tp for tp in super()._filter_tps_with_pending_acks(topics) if tp.topic not in self._batch_topics]
        yield from batched + others

    def _new_offset(self, tp: TP) -> int | None:
        if tp.topic not in self._batch_topics:
            return super()._new_offset(tp)
        # Faust acks a batch as soon as the agent asks for the next one, or raises: that says nothing.
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self._progress.committable(tp)

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        before = {tp: self._committed_offset[tp] for tp in offsets}
        committed = await super()._commit_offsets(offsets, start_new_transaction=start_new_transaction)
        if not committed:  # Faust counts them as committed all the same and would not try again
            self._committed_offset.update(before)
        return committed

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        if self._thread.should_stop:
            return False  # a call to a thread that ended is never answered, and a stopping worker would wait for it
        try:
            # What takes longer than a session is as good as lost: by then the partitions may be somebody else's.
            return await asyncio.wait_for(super()._commit(offsets), timeout=self.app.conf.broker_session_timeout)
        except TimeoutError:
            self.log.warning("A commit was not answered within the session time-out; it will be tried again")
            return False

    async def commit_and_end_transactions(self) -> None:
        """Let agents write what is pending, then commit: the last step of a revocation and of a graceful stop."""
        await self._before_release()
        await super().commit_and_end_transactions()

    async def _before_release(self) -> None:
        partitions = frozenset(tp for tp in self.assignment() if tp.topic in self._batch_topics)
        if not partitions or self._released_for_good:
            return
        self._released_for_good = bool(self.app.should_stop)
        for hook in self._hooks("before_release"):
            try:
                await hook(partitions)
            except StaleBatch as reason:
                self.log.info("Not written before the release, will be processed again: %s", reason)
            except Exception:
                if not self.app.should_stop:
                    raise  # Faust stops the worker
                self.log.exception("The last write before the stop failed; it will be done again")

    def _hooks(self, name: str) -> list[Any]:
        found = {id(topic.hooks): getattr(topic.hooks, name) for topic in self._batch_topics.values()}
        return [hook for hook in found.values() if hook is not None]

    # -- partitions come and go
    # -------------------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Have the agents finish, write and commit; then forget what was delivered."""
        await super().on_partitions_revoked(revoked)
        for tp in ensure_TPset(revoked):
            self._progress.take_back(tp)
            self._first_offsets.pop(tp, None)
            self._next_offsets.pop(tp, None)
        # Faust seeks after the rebalance, which tells the agents; but not when nothing is assigned, and they must forget
        # all the same.
        self.lease.end_term()
        self._must_start_over = True
        self._room.set()

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe; find out which topics want batches, and refuse those that are also read one by one."""
        self._batch_topics = self._find_batch_topics()
        await super().subscribe(topics)

    def slice_size(self, topic: str) -> int | None:
        """Return how many records of a topic make a batch, None for a topic without batches."""
        found = self._batch_topics.get(topic)
        return None if found is None else found.max_records

    def _find_batch_topics(self) -> dict[str, BatchTopic]:
        batched: dict[str, BatchTopic] = {}
        plain: set[str] = set()
        for channel in self.app.topics:
            if isinstance(channel, BatchTopic):
                batched.update(dict.fromkeys(channel.topics, channel))
            else:
                plain.update(channel.topics)
        if both := plain & set(batched):
            raise ImproperlyConfigured(f"topics read both in batches and one by one: {sorted(both)}; use one way for each")
        return batched

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Resume changelogs at once, batch topics when the flow resumes."""
        wanted = ensure_TPset(tps)
        held = {tp for tp in wanted if tp.topic in self._batch_topics}
        self._held_back |= held
        super().resume_partitions(wanted - held)

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        """Pause partitions; what was held back stays so."""
        paused = ensure_TPset(tps)
        self._held_back -= paused
        super().pause_partitions(paused)

    def resume_flow(self) -> None:
        """Resume the flow, and with it the partitions held back."""
        super().resume_flow()
        held, self._held_back = self._held_back, set()
        if held:
            super().resume_partitions(held)

    async def perform_seek(self) -> None:
        """Start over at the committed offsets (Faust calls it after each rebalance, when the tables are recovered)."""
        async with self._delivery_lock:
            await self._start_over()

    async def _start_over(self) -> None:
        term = self.lease.term
        self.take_back_all()
        partitions = frozenset(tp for tp in self.assignment() if tp.topic in self._batch_topics)
        for hook in self._hooks("after_takeover"):
            await hook(partitions)
        for tp in partitions:
            self._acked[tp].clear()
            self._acked_index[tp].clear()
        if self.assignment():
            await super().perform_seek()
        for tp in partitions:
            start = self._committed_offset[tp] or self._first_offsets.get(tp)
            if not self._committed_offset[tp] and start is not None:
                await self._seek(tp, start)
            if start is None:
                self._next_offsets.pop(tp, None)
            else:
                self._next_offsets[tp] = start
            self._read_offset[tp] = start
        self._must_start_over = False
        self.lease.take_up(term)

    # -- delivering
    # -------------------------------------------------------------------------------------------------------------

    async def _drain_messages(self, fetcher: Any) -> None:
        try:
            while not (self.should_stop or fetcher.should_stop):
                if not self.flow_active:
                    await self.wait(self.can_resume_flow)  # type: ignore[arg-type]  # an asyncio event does, as Faust notes too
                    continue
                async with self._delivery_lock:
                    pause = await self._fetch_and_deliver()
                await asyncio.sleep(pause)
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        except Exception:
            self.log.exception("Fetching stopped")
            raise

    async def _fetch_and_deliver(self) -> float:
        """Do one round; return the seconds to pause before the next."""
        if not self.flow_active:
            return 0.0
        if (self._must_start_over or not self.lease.is_taken_up) and not await self._try_to_start_over():
            return IDLE
        active = frozenset(self._active_partitions)  # frozen: aiokafka keeps it over awaits, and reads an emptied set as "all"
        if not self.lease.held:
            active = frozenset(tp for tp in active if tp.topic not in self._batch_topics)
        if not active:
            self._thread.note_activity()
            return IDLE
        generation = self.app.consumer_generation_id
        fetched = await self._getmany(set(active), FETCH_TIMEOUT)
        records = {ensure_TP(tp): found for tp, found in fetched.items() if found}
        await self._deliver(records, generation)
        return 0.0

    async def _try_to_start_over(self) -> bool:
        if self.app.rebalancing or self.app.in_recovery:
            return not self._batch_partitions_active()  # the seek at the end of the recovery will do it
        if not self.lease.is_member:
            return False
        try:
            await self._start_over()
        except errors.KafkaError as error:
            self.log.warning("Cannot go back to the committed offsets yet: %r", error)
            return False
        return True

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the ends of partitions (Faust asks when a recovery begins); stores that are not of them are discarded before."""
        ends = await super().highwaters(*partitions)
        recovery = self.app.tables.recovery  # type: ignore[attr-defined]  # not in Faust's interface
        discard_foreign_stores(recovery, ends, cluster=await self._thread.cluster_id())
        return ends

    def _batch_partitions_active(self) -> bool:
        return any(tp.topic in self._batch_topics for tp in self._active_partitions)

    async def _deliver(self, fetched: Mapping[TP, Sequence[Any]], generation: int) -> None:
        plain: dict[TP, list[Any]] = {}
        slices: Slices = deque()
        for tp, records in fetched.items():
            if tp.topic not in self._batch_topics:
                plain[tp] = list(records)
                continue
            found: list[RecordSlice]
            (found,) = records
            # Before anything can keep these records from being delivered: the client's position is already behind them.
            self._first_offsets.setdefault(tp, found[0].start)
            next_offset = self._next_offsets.get(tp, 0)
            if fresh := deque(one.since(next_offset) for one in found if one.end > next_offset):
                slices.append((tp, fresh))
        if plain:
            await self._deliver_one_by_one(self._recover_in_bulk(plain, generation), generation)
        while slices and await self._deliver_round(next_round(slices), generation):
            continue

    def _is_live(self, tp: TP, generation: int) -> bool:
        return self.flow_active and self.app.consumer_generation_id == generation and tp in self._active_partitions

    async def _deliver_round(self, found: Round, generation: int) -> bool:
        """Deliver slices as soon as there is room.

        False when a partition of them is not to be delivered from any more: they and what is left come again.
        """
        room = max(MAX_UNPROCESSED, 2 * len(found))

        def is_live() -> bool:
            return all(self._is_live(tp, generation) for tp, _ in found)

        while self._progress.unprocessed >= room and is_live():
            self._room.clear()
            await self.wait_first(self._room.wait(), self.suspend_flow.wait())
        if self._must_start_over or not is_live():
            self._must_start_over = True
            return False
        batches = []
        for tp, taken in found:
            delivery = self._progress.deliver(tp, end=taken.end, generation=generation)
            batches.append(Batch(tp, taken, delivery, self))
            self._next_offsets[tp] = taken.end
            self._read_offset[tp] = taken.end - 1
        message = BatchMessage.of(tuple(batches))
        await self.wait_first(self.callback(message), self.suspend_flow.wait())
        return True

    def _recover_in_bulk(self, fetched: Mapping[TP, list[Any]], generation: int) -> dict[TP, list[Any]]:
        """Apply changelog slices to their `BatchTable` at once; return what is left to deliver.

        The last record of each slice still goes Faust's way: it is how Faust learns that a recovery has come to its
        end.
        """
        left = dict(fetched)
        tables: dict[TP, Any] = self.app.tables.recovery.tp_to_table  # type: ignore[attr-defined]  # not in Faust's interface
        for tp, records in fetched.items():
            table = tables.get(tp)
            if isinstance(table, BatchTable) and self._is_live(tp, generation):
                table.apply_records(tp.partition, records)
                left[tp] = records[-1:]
        return left

    async def _deliver_one_by_one(self, fetched: Mapping[TP, list[Any]], generation: int) -> None:
        """Deliver records of topics without batches, and of changelogs in recovery, with Faust's own bookkeeping."""
        for count, (tp, record) in enumerate(self.scheduler.iterate(fetched)):
            if not self._is_live(tp, generation):
                continue
            if count % 100 == 0:
                await asyncio.sleep(0)
            read = self._read_offset[tp]
            if read is not None and record.offset < read:
                continue
            if read and record.offset - read > 1 and self.app.topics.acks_enabled_for(tp.topic):
                await self._add_gap(tp, read + 1, record.offset - 1)
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            await self.wait_first(self.callback(self._to_message(tp, record)), self.suspend_flow.wait())
            self._read_offset[tp] = record.offset

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust's check takes idle partitions for stuck ones. Watch the consumer group's lag instead."""
