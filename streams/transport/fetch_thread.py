"""The thread that talks to the broker for the consumer: fetches, heartbeats, commits."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from aiokafka import TopicPartition, errors
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from mode.utils.futures import maybe_async, maybe_set_exception, maybe_set_result

from streams.fetch_pace import IDLE_WAIT_MS, FetchPace
from streams.transport import lease
from streams.transport.fetched_slices import deliver_slices

if TYPE_CHECKING:
    from streams.transport.consumer import Consumer

#: Bytes to read per partition when only its high watermark is wanted (a broker sends at least one batch whatever the
#: limit).
_PEEK_BYTES = 1

_PEEK_ATTEMPTS = 5
_PEEK_BACKOFF = 0.2

#: The consumer id that clients send (brokers that replicate send their own).
_CLIENT_REPLICA = -1


class FetchThread(AIOKafkaConsumerThread):
    """Faust's consumer thread with a lease on the membership and prompt fetches."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: Calls under way, which nothing else holds.
        self._calls: set[asyncio.Task[None]] = set()

    async def on_start(self) -> None:
        """Start the client; watch its heartbeats from the first one on (it joins the group only when it subscribes)."""
        await super().on_start()
        if not self.app.client_only:
            FetchPace(self._ensure_consumer()._fetcher)
            deliver_slices(self._ensure_consumer()._fetcher, cast("Consumer", self.consumer).slice_size)
            coordinator = self._ensure_consumer()._coordinator
            lease.watch(coordinator, cast("Consumer", self.consumer).lease)
            _leave_from_generation_zero_too(coordinator)

    async def call_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in the thread and return what it returns, or what its coroutine does.

        In place of mode's queue of calls, whose workers make four tasks for each. As there, a caller that is cancelled leaves
        the call to its end.
        """
        promise = self.parent_loop.create_future()
        self.thread_loop.call_soon_threadsafe(self._begin_call, promise, partial(fun, *args, **kwargs))
        return await promise

    def _begin_call(self, promise: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        task = asyncio.create_task(self._answer(promise, call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, promise: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        try:
            found = await maybe_async(call())
        except BaseException as error:
            self.parent_loop.call_soon_threadsafe(maybe_set_exception, promise, error)
        else:
            self.parent_loop.call_soon_threadsafe(maybe_set_result, promise, found)

    def note_activity(self) -> None:
        """Tell the client that the worker lives although it fetches nothing; may be called from another thread.

        A worker without partitions has nothing to fetch from; it would leave the group after `broker_max_poll_interval`
        and not come back.
        """
        self._ensure_consumer()._subscription._last_fetch_ended = time.monotonic()

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit; False when the group has moved on, in which case the offsets are somebody else's business.

        In place of Faust's, which stops the whole worker when a commit meets a rebalance in an unforeseen way.
        """
        assigned = self.assignment()
        kept = {
            TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "")
            for tp, offset in offsets.items()
            if tp in assigned
        }
        try:
            await self._ensure_consumer().commit(kept)
        except (errors.CommitFailedError, errors.IllegalStateError) as error:
            self.log.info("Offsets not committed: %s", error)
            return False
        except errors.KafkaError as error:
            self.log.exception("Offsets cannot be committed")
            await self.crash(error)
            return False
        return True

    async def _highwaters(self, partitions: Iterable[TP]) -> Mapping[TP, int]:
        """Return the end of each partition, as a fetch reports it.

        Tansu 0.6 answers ListOffsets with the first offset of the last batch, so that a recovery would stop short of
        its end. The high watermark in a fetch response is right there as on Apache Kafka (where both agree), so it is
        always asked for.
        """
        ends = dict(await super()._highwaters(list(partitions)))
        for attempt in range(_PEEK_ATTEMPTS):
            try:
                return {tp: max(end, await self._peek(tp, end)) if end else end for tp, end in ends.items()}
            except errors.KafkaError:
                if attempt == _PEEK_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_PEEK_BACKOFF)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def cluster_id(self) -> str:
        """Return the name that the cluster gave itself when it was made; empty when the broker does not tell."""
        return str(await self.call_thread(self._cluster_id))

    async def _cluster_id(self) -> str:
        client = self._ensure_consumer()._client
        response = await client.send(client.get_random_node(), MetadataRequest([]))
        return getattr(response, "cluster_id", None) or ""

    async def _peek(self, tp: TP, end: int) -> int:
        """Fetch from just before `end` and return the high watermark; `end` when the broker has nothing there."""
        client = self._ensure_consumer()._client
        leader = client.cluster.leader_for_partition(TopicPartition(tp.topic, tp.partition))
        if leader is None or leader == -1:
            raise errors.LeaderNotAvailableError(f"{tp.topic}[{tp.partition}]")
        request = FetchRequest(IDLE_WAIT_MS, 1, _PEEK_BYTES, 0, [(tp.topic, [(tp.partition, end - 1, _PEEK_BYTES)])])
        response = await client.send(leader, request)
        for _, answers in response.topics:
            for _, error_code, high_watermark, *_ in answers:
                if error_code == errors.NoError.errno:
                    return int(high_watermark)
        return end


def _leave_from_generation_zero_too(coordinator: Any) -> None:
    """Have the client say goodbye in the first generation of a Tansu group as well.

    Tansu counts generations from 0, Apache Kafka from 1, and aiokafka takes 0 for "not a member": it would go without a
    word, and the next worker would wait for the session to end.
    """
    leave = coordinator._maybe_leave_group

    async def leave_whatever_the_number() -> None:
        if coordinator.generation == 0:
            coordinator.generation = 1  # not part of the request, and reset right after it
        await leave()

    coordinator._maybe_leave_group = leave_whatever_the_number
