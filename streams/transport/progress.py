"""Which deliveries of each partition are processed and done, and up to where their offsets may be committed."""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


@dataclass(slots=True, eq=False)
class Delivery:
    """One slice of a partition that was handed out.

    `end` is the offset after its last record. `processed` makes room for the next delivery; `done` lets its offsets be
    committed. A delivery that is no longer `valid` was taken back (rebalance, seek): its offsets are delivered again,
    here or elsewhere.
    """

    end: int
    generation: int
    processed: bool = False
    done: bool = False
    valid: bool = True


class Progress(Generic[P]):
    """The deliveries of all partitions, in order.

    The offset to commit for a partition is the end of its done prefix: a later delivery that is done first waits for
    the earlier ones.
    """

    def __init__(self) -> None:
        self._open: dict[P, deque[Delivery]] = {}
        self._ends: dict[P, int] = {}
        self._unprocessed = 0

    @property
    def unprocessed(self) -> int:
        """How many valid deliveries of all partitions are not processed yet."""
        return self._unprocessed

    def has_unprocessed(self, partition: P) -> bool:
        """Whether a valid delivery of the partition is not processed yet."""
        return any(not delivery.processed for delivery in self._open.get(partition, ()))

    def partitions(self) -> Iterator[P]:
        """Yield the partitions with anything delivered."""
        yield from tuple(self._open)

    def deliver(self, partition: P, *, end: int, generation: int) -> Delivery:
        """Record that the records up to before offset `end` are handed out."""
        delivery = Delivery(end, generation)
        self._open.setdefault(partition, deque()).append(delivery)
        self._unprocessed += 1
        return delivery

    def mark_processed(self, delivery: Delivery) -> None:
        """Count a delivery as processed; further calls change nothing."""
        if delivery.valid and not delivery.processed:
            self._unprocessed -= 1
        delivery.processed = True

    def mark_done(self, delivery: Delivery) -> None:
        """Let the offsets of a delivery be committed once all before it are done too; implies processed."""
        self.mark_processed(delivery)
        delivery.done = True

    def committable(self, partition: P) -> int | None:
        """Return the end of the done prefix, None when nothing is done yet.

        It does not forget: a commit that failed gets the same answer the next time.
        """
        deliveries = self._open.get(partition)
        while deliveries and deliveries[0].done:
            self._ends[partition] = deliveries.popleft().end
        return self._ends.get(partition)

    def take_back(self, partition: P) -> None:
        """Make all open deliveries of a partition invalid and forget what was done."""
        for delivery in self._open.pop(partition, ()):
            if not delivery.processed:
                self._unprocessed -= 1
            delivery.valid = False
        self._ends.pop(partition, None)

    def take_back_all(self) -> None:
        """Take back every partition."""
        for partition in self.partitions():
            self.take_back(partition)
