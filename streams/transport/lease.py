"""How long this worker can be sure that its partitions are still its own."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import errors
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest

#: The part of the session during which the worker trusts its membership. The rest is for a write that was begun just
#: before the end to reach the broker, and for clocks that run at different speeds.
TRUSTED_PART = 0.8

#: Answers that say that the coordinator does not count us as a member (any more).
_EXPELLED = frozenset({errors.UnknownMemberIdError.errno, errors.IllegalGenerationError.errno})


def now() -> float:
    """Return seconds of a clock that nobody sets and that goes on while the machine sleeps, where the system has one.

    A plain monotonic clock stands still while a virtual machine is suspended: the worker would wake up sure of its
    partitions.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Ownership until a moment that each answered heartbeat moves on.

    The coordinator keeps a member for a session time-out after it *received* the last heartbeat. That was after we sent
    it, so counting from the sending is safe however late the answer comes. One thread renews, others read: a single
    float, no lock.
    """

    def __init__(self, *, session_timeout: float, clock: Callable[[], float] = now) -> None:
        self._duration = session_timeout * TRUSTED_PART
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether the partitions are certainly still ours."""
        return self._clock() < self._until

    @property
    def remaining(self) -> float:
        """Seconds left; negative when it is over."""
        return self._until - self._clock()

    def renew(self, sent_at: float) -> None:
        """Extend the lease: the coordinator confirmed our membership with the answer to a request sent at `sent_at`."""
        self._until = max(self._until, sent_at + self._duration)

    def end(self) -> None:
        """End it at once: the coordinator does not know us any more."""
        self._until = float("-inf")


def watch(coordinator: Any, lease: Lease, clock: Callable[[], float] = now) -> None:
    """Renew `lease` with every heartbeat and group join that this aiokafka `GroupCoordinator` gets a good answer to.

    A heartbeat answered with "rebalance in progress" does not renew it: from then on the group can go on without us
    when the rebalance time-out ends, whatever our heartbeats.
    """
    send: Callable[[Any], Awaitable[Any]] = coordinator._send_req

    async def send_and_watch(request: Any) -> Any:
        sent_at = clock()
        response = await send(request)
        if isinstance(request, HeartbeatRequest | SyncGroupRequest):
            if response.error_code == errors.NoError.errno:
                lease.renew(sent_at)
            elif response.error_code in _EXPELLED:
                lease.end()
        return response

    coordinator._send_req = send_and_watch
