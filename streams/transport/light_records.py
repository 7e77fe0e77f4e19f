"""Records without what nobody reads: aiokafka's own cost more to make than all of the detection."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchResult


class DeliveredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record with the name of its place; `timestamp` in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


def delivered(tp: TopicPartition, record: Any) -> DeliveredRecord:
    """Return a record with the name of its place, of what aiokafka finds in a fetched record batch."""
    return DeliveredRecord(
        tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )


def take(result: Any, max_records: int | None = None) -> list[DeliveredRecord]:
    """Do what `FetchResult.getall` does, without two calls for each record."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    found = list(islice(result._partition_records._records_iterator, max_records))
    result._update_position()
    if max_records is None or len(found) < max_records:
        result._partition_records = None
    return found


def deliver_lightly(fetcher: Any, is_light: Callable[[str], bool]) -> None:
    """Have a fetcher of aiokafka make records of the topics for which `is_light` this way, from its next fetch on.

    It makes them when they are taken, from the fetch results at hand: each gets our way to make one before anybody can take it.
    """
    fetch = fetcher._proc_fetch_request

    async def fetch_lightly(*of_fetch: Any) -> bool:
        has_records: bool = await fetch(*of_fetch)
        for tp, result in fetcher._records.items():
            if is_light(tp.topic) and isinstance(result, FetchResult) and result.has_more():
                result._partition_records._consumer_record = delivered
                result.getall = partial(take, result)
        return has_records

    fetcher._proc_fetch_request = fetch_lightly
