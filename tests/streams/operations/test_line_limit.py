from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.operations.line_limit import LineLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_of_each_kind_only_so_many_lines_pass_in_an_interval(clock: Clock) -> None:
    limit: LineLimit[str] = LineLimit(lines=2, interval=10.0, clock=clock)
    assert [limit.allows("a") for _ in range(4)] == [True, True, False, False]
    assert limit.allows("b")
    clock.now = 10.0
    assert limit.allows("a")


def test_what_was_left_out_is_told_once_and_when_its_interval_is_over(clock: Clock) -> None:
    limit: LineLimit[str] = LineLimit(lines=1, interval=10.0, clock=clock)
    for _ in range(4):
        limit.allows("a")
    clock.now = 9.9
    assert limit.left_out() == {}
    clock.now = 10.0
    assert limit.left_out() == {"a": 3}
    assert limit.left_out() == {}


def test_at_the_end_all_that_was_left_out_is_told(clock: Clock) -> None:
    limit: LineLimit[str] = LineLimit(lines=1, interval=10.0, clock=clock)
    for _ in range(3):
        limit.allows("a")
    assert limit.left_out(at_once=True) == {"a": 2}


@given(
    st.lists(st.one_of(st.sampled_from("abc"), st.floats(0.1, 20.0), st.just(None)), max_size=60),
    st.integers(min_value=1, max_value=3),
)
def test_every_line_is_either_logged_or_told_as_left_out(steps: list[Any], lines: int) -> None:
    clock = Clock()
    limit: LineLimit[str] = LineLimit(lines=lines, clock=clock)
    asked = logged = told = 0
    for step in steps:
        if isinstance(step, str):
            asked += 1
            logged += limit.allows(step)
        elif step is None:
            told += sum(limit.left_out().values())
        else:
            clock.now += step
    assert logged + told + sum(limit.left_out(at_once=True).values()) == asked
