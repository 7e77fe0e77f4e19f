"""How far the consumer has read a partition, and when it last heard of the partition's end."""

from typing import Any, NamedTuple

from aiokafka import TopicPartition
from faust.types import TP


class Reading(NamedTuple):
    """What the Kafka client knows of a partition that it reads.

    `end` is the offset after the last record as of `heard_at` (seconds since 1970), when the leader last answered a fetch; both
    None before the first answer. `passed` is an offset before which nothing is left to be delivered or processed, None when
    something is.
    """

    end: int | None
    heard_at: float | None
    passed: int | None


def reading_of(consumer: Any, tp: TP) -> Reading | None:
    """Return the reading of a partition, None when it is not assigned; `consumer` is an app's, of this package.

    Looks only at what is in memory and waits for nothing.
    """
    client = consumer._thread._consumer
    subscription = None if client is None else client._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    partition = TopicPartition(tp.topic, tp.partition)
    if assignment is None or partition not in assignment.tps:
        return None
    state = assignment.state_value(partition)
    # With no slice of any partition under way none waits for its delivery either. The client's position is past what cannot be
    # delivered, such as the markers of transactions at the end of a partition.
    idle = consumer._progress.unprocessed == 0 and not consumer._must_start_over
    heard_at = None if state.timestamp is None else state.timestamp / 1000
    return Reading(state.highwater, heard_at, state._position if idle else None)
