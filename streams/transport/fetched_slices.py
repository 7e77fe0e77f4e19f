"""Has aiokafka's consumer give slices of whole record batches in place of records."""

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.errors import CorruptRecordException

from streams.transport.records import BareRecord, RecordSlice, within


def take(result: Any, size: int, max_records: int | None = None) -> list[list[RecordSlice]]:
    """Return what a fetch brought for a partition: one list of slices with as many whole record batches as have `size` records.

    In place of `FetchResult.getall`, with the same checks; the last record batch may bring more than `max_records`, and what is
    behind it is left for the next call. Aborted transactions are not looked for, as it is with the isolation level that our
    consumers have.
    """
    if not result.has_more() or not result.check_assignment(result._topic_partition):
        return []
    fetched = result._partition_records
    fetched._records_iterator = None  # it and what it iterates over refer to each other, and would keep what was fetched
    slices = _Slices(fetched.next_fetch_offset, size)
    most = float("inf") if max_records is None else fetched.next_fetch_offset + max_records
    try:
        while (more := fetched._records.has_next()) and slices.position < most:
            slices.add(_checked(fetched._records.next_batch(), result._topic_partition))
    except BaseException:
        result._partition_records = None  # what was read of it would be left out by the next call: it is fetched again
        raise
    fetched.next_fetch_offset = slices.position
    result._update_position()
    if not more:
        result._partition_records = None
    return [slices.finished] if slices.close() else []  # one item, whose length the client takes off its limit on records


def _checked(batch: Any, tp: TopicPartition) -> Any:
    if not batch.validate_crc():
        raise CorruptRecordException(f"Invalid CRC - {tp}")
    return batch


class _Slices:
    def __init__(self, position: int, size: int) -> None:
        self.position = position
        self.finished: list[RecordSlice] = []
        self._size = size
        self._start = position
        self._end = position
        self._parts: list[Iterable[BareRecord]] = []

    def add(self, batch: Any) -> None:
        start, end = max(self.position, getattr(batch, "base_offset", -1)), batch.next_offset
        self.position = max(self.position, end)
        if batch.is_control_batch or end <= start:
            return
        if end - self._start > self._size:
            self.close()
        if not self._parts:
            self._start = start
        self._end = end
        self._parts.append(within(batch, start, end))
        if end - self._start > self._size:
            self._cut()

    def _cut(self) -> None:
        (records,) = self._parts
        decoded = list(records)
        for at in range(0, len(decoded), self._size):
            some = decoded[at : at + self._size]
            self.finished.append(RecordSlice(some[0].offset, some[-1].offset + 1, [some]))
        self._parts = []

    def close(self) -> bool:
        """Finish the slice that was begun; return whether there is any."""
        if self._parts:
            self.finished.append(RecordSlice(self._start, self._end, self._parts))
            self._parts = []
        return bool(self.finished)


def deliver_slices(fetcher: Any, slice_size: Callable[[str], int | None]) -> None:
    """Have a fetcher of aiokafka give slices of the topics that have a size for them, from its next fetch on.

    It makes records when they are taken, from the fetch results at hand: each gets our way to do it before anybody can take it.
    """
    fetch = fetcher._proc_fetch_request

    async def fetch_slices(*of_fetch: Any) -> bool:
        has_records: bool = await fetch(*of_fetch)
        tp: TopicPartition
        for tp, result in fetcher._records.items():
            size = slice_size(tp.topic)
            if size is not None and isinstance(result, FetchResult) and result.has_more():
                result.getall = partial(take, weakref.proxy(result), size)
        return has_records

    fetcher._proc_fetch_request = fetch_slices
