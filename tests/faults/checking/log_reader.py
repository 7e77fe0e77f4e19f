"""Reads whole partitions, without a consumer group."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

#: Milliseconds that a fetch may wait at the broker.
_FETCH_MAX_WAIT_MS = 100


class LogReader:
    """A client that reads partitions from their start to their end, and committed offsets of a group."""

    def __init__(self, bootstrap_servers: str, *, group: str) -> None:
        # Never subscribed, so never a member of the group.
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=8 * 1024 * 1024,
        )

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._client.stop()

    async def committed(self, topic: str, partition: int) -> int:
        """Return the committed offset, 0 when there is none."""
        return await self._client.committed(TopicPartition(topic, partition)) or 0

    async def ends(self, topic: str, starts: Sequence[int]) -> list[int]:
        """Return the offset after the last record of each partition; `starts` are offsets from which it is looked for."""
        places = [TopicPartition(topic, number) for number in range(len(starts))]
        self._client.assign(places)
        for place, start in zip(places, starts, strict=True):
            self._client.seek(place, start)
        while any(self._client.highwater(place) is None for place in places):
            await self._client.getmany(timeout_ms=_FETCH_MAX_WAIT_MS, max_records=1)
        return [self._client.highwater(place) or 0 for place in places]

    async def read(self, topic: str, partitions: int) -> list[list[ConsumerRecord]]:
        """Return the records of each partition, in order."""
        records, _ = await self.read_with_ends(topic, partitions)
        return records

    async def read_with_ends(self, topic: str, partitions: int) -> tuple[list[list[ConsumerRecord]], list[int]]:
        """Return the records of each partition and the offset after its last one (compaction may have removed that one)."""
        places = [TopicPartition(topic, number) for number in range(partitions)]
        self._client.assign(places)
        await self._client.seek_to_beginning(*places)
        found: dict[TopicPartition, list[ConsumerRecord]] = {place: [] for place in places}
        while not all([await self._at_end(place) for place in places]):
            fetched: dict[Any, Sequence[ConsumerRecord]] = await self._client.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)
            for place, records in fetched.items():
                found[place].extend(records)
        return [found[place] for place in places], [self._client.highwater(place) or 0 for place in places]

    async def _at_end(self, place: TopicPartition) -> bool:
        # The high watermark of a fetch: Tansu 0.6 answers ListOffsets with the first offset of the last batch.
        highwater = self._client.highwater(place)
        return highwater is not None and await self._client.position(place) >= highwater
