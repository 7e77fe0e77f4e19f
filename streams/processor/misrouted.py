"""Events that came to a partition which is not their run's."""

from schemas.cloudevents import InvalidEventError
from schemas.topics import partition_of
from streams.transport import BareRecord, ProducerRecord, Record

#: Marks an event that a worker sent on to its partition, and says where it was found.
MISROUTED_HEADER = "loopwarden.misrouted"


def destination(run_id: str, record: BareRecord, *, partition: int, partitions: int) -> int | None:
    """Return the partition that a record of `partition` is to be sent on to, None when it is where it belongs.

    Raises `InvalidEventError` for a record that was sent on once already and is in a wrong place all the same.
    """
    right = partition_of(run_id, partitions)
    if right == partition:
        return None
    if any(name == MISROUTED_HEADER for name, _ in record.headers):
        raise InvalidEventError("misrouted", f"sent on once already, and yet it belongs to partition {right} of {partitions}")
    return right


def sent_on(record: Record) -> ProducerRecord:
    """Return the record as it came, marked."""
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    headers = [*record.headers, (MISROUTED_HEADER, place.encode())]
    return ProducerRecord(record.key, record.value, headers, max(record.timestamp or 0, 0))
