"""The clock that numbers the events of a gateway."""

import threading
import time
from collections.abc import Callable


class SequenceClock:
    """Gives ever larger numbers: microseconds since 1970.

    The wall clock is read once, then a clock that nobody sets counts on, so a change of the wall clock does not stop or repeat
    numbers. A later process starts above all that this one gave, unless the wall clock has been put back in between: then the
    events of runs that outlive the process are ignored until it has caught up. May be called from any thread.
    """

    def __init__(self, *, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._steady_ns = steady_ns
        self._origin_ns = wall_ns() - steady_ns()
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """Return the next number."""
        with self._lock:
            self._last = max(self._last + 1, (self._origin_ns + self._steady_ns()) // 1000)
            return self._last


#: One for all publishers of a process: two publishers for one run, one after the other, are then in order too.
PROCESS_CLOCK = SequenceClock()
