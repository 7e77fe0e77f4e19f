"""What a Faust agent receives from a batch topic: slices of partitions."""

from collections.abc import Iterable
from typing import Any, Protocol

from faust.types import TP, ConsumerMessage

from streams.transport.progress import Delivery
from streams.transport.records import BareRecord, RecordSlice

#: The generation of a message that was taken back; Faust's streams skip messages of other generations.
TAKEN_BACK = -1


class StaleBatch(Exception):  # noqa: N818  (a course of events, not a fault: the batch is delivered again)
    """The batch may belong to another worker by now: write nothing for it, forget what was computed from it."""


class Owner(Protocol):
    """What a batch needs from the consumer that delivered it."""

    def reason_to_stop(self, delivery: Delivery) -> str | None:
        """Say why the delivery must not be written for, None when all is well."""

    def on_processed(self, delivery: Delivery) -> None:
        """Make room for the next delivery."""

    def on_done(self, delivery: Delivery) -> None:
        """Let the offsets of the delivery be committed."""


class Batch:
    """Records of one partition, in order.

    Its life: work on `records`, which can be iterated over once; `ensure_owned()` before every write; `processed()` when
    the records are no longer needed, which makes room for the next batch; `done()` when every effect is durable, which
    lets its offsets be committed. In between a batch may wait for a flush that covers several of them.
    """

    __slots__ = ("_delivery", "_owner", "first_offset", "last_offset", "partition", "records", "topic")

    def __init__(self, tp: TP, found: RecordSlice, delivery: Delivery, owner: Owner) -> None:
        self.topic: str = tp.topic
        self.partition: int = tp.partition
        self.records: Iterable[BareRecord] = found.records()
        self.first_offset: int = found.start
        self.last_offset: int = found.end - 1
        self._delivery = delivery
        self._owner = owner

    @property
    def generation(self) -> int:
        """The group generation it was delivered in; `TAKEN_BACK` when it is void."""
        return self._delivery.generation if self._delivery.valid else TAKEN_BACK

    @property
    def owned(self) -> bool:
        """Whether its partition is certainly still this worker's, and it was not taken back."""
        return self._owner.reason_to_stop(self._delivery) is None

    def ensure_owned(self) -> None:
        """Raise `StaleBatch` unless the partition is certainly still ours.

        Call it right before every write. When only the lease is over, deliveries start over at the committed offsets by
        themselves.
        """
        reason = self._owner.reason_to_stop(self._delivery)
        if reason is not None:
            raise StaleBatch(f"{self}: {reason}")

    def processed(self) -> None:
        """Let go of the records and make room for the next batch; its offsets stay uncommitted until `done()`."""
        self.records = ()
        self._owner.on_processed(self._delivery)

    def done(self) -> None:
        """Let its offsets be committed, once the batches of the partition before it are done too; implies processed."""
        self.processed()
        self._owner.on_done(self._delivery)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.first_offset}..{self.last_offset}"

    def __repr__(self) -> str:
        return f"<Batch {self}>"


class BatchMessage(ConsumerMessage):
    """Faust's envelope around batches, as its conductor, queues and streams expect one."""

    __slots__ = ("batches",)

    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, batches: tuple[Batch, ...]) -> "BatchMessage":
        """Wrap batches; topic, partition and offset for Faust are those of the last record of the first one."""
        first = batches[0]
        message = cls(
            topic=first.topic,
            partition=first.partition,
            offset=first.last_offset,
            timestamp=0.0,  # for windowed tables, which count single events
            timestamp_type=0,
            headers=None,
            key=None,
            value=None,
            checksum=None,
            serialized_key_size=0,
            serialized_value_size=0,
            tp=TP(first.topic, first.partition),
        )
        message.batches = batches
        return message

    def _get_generation(self) -> int:
        # Some that were taken back do not make the others go unnoticed: whoever writes for them is told.
        return max(batch.generation for batch in self.batches)

    def _ignore(self, value: object) -> None:
        """Accept what Faust's constructor assigns; the batches know better."""

    #: In place of Faust's plain attribute, so that its streams skip batches as soon as they are taken back.
    generation_id: Any = property(_get_generation, _ignore)
