"""The numbers of events grow, whatever the clocks do."""

import itertools
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from streams.gateway.sequence_clock import PROCESS_CLOCK, SequenceClock


@given(st.lists(st.integers(0, 3_000), min_size=1), st.integers(0, 2**62))
def test_numbers_grow_however_slowly_time_does(steps: list[int], start: int) -> None:
    steady = itertools.accumulate(steps, initial=0)
    last = [0]

    def steady_ns() -> int:
        last[0] = next(steady, last[0])
        return last[0]

    clock = SequenceClock(wall_ns=lambda: start, steady_ns=steady_ns)
    numbers = [clock.next() for _ in range(len(steps) + 5)]
    assert numbers == sorted(set(numbers))


def test_a_wall_clock_that_is_put_back_stops_nothing() -> None:
    wall = iter([10**18, 0])
    steady = iter(range(0, 10**9, 10**6))
    clock = SequenceClock(wall_ns=lambda: next(wall), steady_ns=lambda: next(steady))
    assert clock.next() >= 10**15
    assert clock.next() > 10**15


def test_a_later_process_starts_above() -> None:
    # No gateway sends an event per microsecond, and a process takes thousands of them to start.
    before = PROCESS_CLOCK.next()
    while time.time_ns() // 1000 <= before + 10:
        pass
    assert SequenceClock().next() > before


def test_threads_never_get_the_same_number() -> None:
    clock, found, lock = SequenceClock(), [], threading.Lock()

    def take() -> None:
        numbers = [clock.next() for _ in range(2000)]
        with lock:
            found.extend(numbers)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found)
