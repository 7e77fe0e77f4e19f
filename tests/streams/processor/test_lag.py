"""How far behind a partition is, from what is known of it at one look after the other."""

import pytest

from streams.processor.lag import Lag, LagClock
from streams.transport.reading import Reading

NOW = 1_000_000.0


@pytest.fixture
def clock() -> LagClock:
    return LagClock()


def look(clock: LagClock, *, end: int | None, judged: int, at: float, written: float | None = None, **more: float) -> Lag | None:
    """Look at a partition that ends at `end` and is judged up to before `judged`; `written` is when the last judged one was."""
    heard_at = more.get("heard_at", at)
    reading = Reading(end, None if end is None else heard_at, int(more["passed"]) if "passed" in more else None)
    judged_time = None if written is None else int(written * 1000)
    return clock.look(reading, next_offset=judged, judged_time=judged_time, now=at)


def test_nothing_is_known_before_the_first_answer_of_the_broker(clock: LagClock) -> None:
    assert look(clock, end=None, judged=0, at=NOW) is None


def test_nothing_left_is_no_lag_however_old_the_last_record_is(clock: LagClock) -> None:
    assert look(clock, end=10, judged=10, at=NOW, written=NOW - 3600) == Lag(0, 0.0)


def test_a_backlog_is_at_most_as_old_as_the_last_judged_record(clock: LagClock) -> None:
    assert look(clock, end=100, judged=10, at=NOW, written=NOW - 42) == Lag(90, 42.0)


def test_the_first_record_after_a_quiet_hour_is_not_an_hour_behind(clock: LagClock) -> None:
    look(clock, end=10, judged=10, at=NOW, written=NOW - 3600)
    assert look(clock, end=11, judged=10, at=NOW + 1, written=NOW - 3600) == Lag(1, 1.0)


def test_a_slow_clock_of_a_producer_does_not_look_like_a_backlog(clock: LagClock) -> None:
    look(clock, end=10, judged=10, at=NOW)
    assert look(clock, end=20, judged=15, at=NOW + 2, written=NOW - 86_400) == Lag(5, 2.0)


def test_a_fast_clock_of_a_producer_gives_no_negative_lag(clock: LagClock) -> None:
    assert look(clock, end=20, judged=15, at=NOW, written=NOW + 86_400) == Lag(5, 0.0)


def test_a_backlog_of_which_nothing_was_judged_has_no_certain_age(clock: LagClock) -> None:
    assert look(clock, end=20, judged=0, at=NOW) == Lag(20, 0.0, certain=False)
    assert look(clock, end=20, judged=0, at=NOW + 7) == Lag(20, 7.0, certain=False)
    assert look(clock, end=20, judged=5, at=NOW + 8, written=NOW - 100) == Lag(15, 108.0)


def test_a_partition_whose_leader_does_not_answer_is_behind_since_its_last_answer(clock: LagClock) -> None:
    assert look(clock, end=10, judged=10, at=NOW + 4, heard_at=NOW) == Lag(0, 0.0)
    assert look(clock, end=10, judged=10, at=NOW + 60, heard_at=NOW) == Lag(0, 60.0)


def test_markers_at_the_end_that_cannot_be_delivered_are_no_backlog(clock: LagClock) -> None:
    assert look(clock, end=12, judged=10, at=NOW, passed=12) == Lag(0, 0.0)


def test_records_without_a_time_count_from_the_first_look(clock: LagClock) -> None:
    look(clock, end=20, judged=0, at=NOW)
    assert look(clock, end=20, judged=5, at=NOW + 3, written=-0.001) == Lag(15, 3.0, certain=False)
