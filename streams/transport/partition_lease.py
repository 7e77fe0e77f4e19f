"""A lease on partitions: it is over with what the worker knows of them, not only with its membership."""

from collections.abc import Callable

from streams.transport import lease
from streams.transport.lease import Lease


class PartitionLease(Lease):
    """A lease that runs in terms.

    A term ends when the partitions are given back, and when the membership was over before a heartbeat was answered again: others
    may have owned them meanwhile. From then on the lease is not held, whatever is answered, until the new term is taken up: what
    was known of the partitions is forgotten, and their tables are recovered. In between, a worker that went by its membership
    alone would write what it knew before.
    """

    def __init__(self, *, session_timeout: float, clock: Callable[[], float] = lease.now) -> None:
        super().__init__(session_timeout=session_timeout, clock=clock)
        self._term = 0
        self._taken_up = -1

    @property
    def held(self) -> bool:
        """Whether the partitions are certainly still ours, and what we know of them is of this term."""
        return self.is_member and self.is_taken_up

    @property
    def is_member(self) -> bool:
        """Whether we are certainly still a member of the group."""
        return super().held

    @property
    def is_taken_up(self) -> bool:
        """Whether this term has been taken up."""
        return self._taken_up == self._term

    @property
    def term(self) -> int:
        """The number of this term."""
        return self._term

    def renew(self, sent_at: float) -> None:
        """Extend the membership; one that was over begins another term."""
        if not self.is_member:
            self._term += 1
        super().renew(sent_at)

    def end_term(self) -> None:
        """Begin another term: the partitions are given back."""
        self._term += 1

    def take_up(self, term: int) -> None:
        """Hold the lease again, unless another term has begun since this one."""
        self._taken_up = term
