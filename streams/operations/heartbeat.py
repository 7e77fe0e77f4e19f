"""Knows whether an event loop turns, from outside of it."""

import time
from collections.abc import Callable

from streams.operations.health import Check, Health

#: Seconds between two beats.
INTERVAL = 1.0

#: Seconds without a beat until the loop counts as stuck. The longest that ours does in one go (a slice of 2,000 large records, a
#: database that is opened) takes about a second; and a worker that stands still for its whole session has lost its partitions.
STUCK_AFTER = 15.0


class Heartbeat:
    """Beaten by the event loop, looked at by another thread: a float, no lock."""

    def __init__(self, *, stuck_after: float = STUCK_AFTER, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._beaten_at = clock()

    def beat(self) -> None:
        """Show that the loop turns."""
        self._beaten_at = self._clock()

    @property
    def age(self) -> float:
        """Seconds since the last beat."""
        return self._clock() - self._beaten_at

    def health(self) -> Health:
        """Return whether the loop has turned lately."""
        age = self.age
        return Health([Check("event-loop", age <= self._stuck_after, f"turned {age:.1f} s ago, bound {self._stuck_after:g} s")])
