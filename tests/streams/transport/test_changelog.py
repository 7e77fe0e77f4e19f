"""A store may only be called complete up to where it has seen everything."""

from hypothesis import given
from hypothesis import strategies as st

from streams.transport.changelog import AppliedOffset


def test_an_own_write_that_follows_moves_it() -> None:
    applied = AppliedOffset()
    assert applied.wrote(0, 4, 5)
    assert applied.wrote(5, 5, 1)
    assert applied.offset == 5


def test_a_foreign_record_in_between_stops_it_until_it_is_read() -> None:
    applied = AppliedOffset(9)
    assert not applied.wrote(11, 12, 2)
    assert not applied.wrote(13, 13, 1)
    assert applied.offset == 9
    applied.read(13)
    assert applied.wrote(14, 14, 1)


def test_a_foreign_record_within_an_own_write_stops_it() -> None:
    applied = AppliedOffset(9)
    assert not applied.wrote(10, 12, 2)
    assert applied.offset == 9


def test_reading_again_does_not_move_it_back() -> None:
    applied = AppliedOffset(9)
    applied.read(3)
    assert applied.offset == 9


@given(st.lists(st.tuples(st.sampled_from(["own", "foreign", "recover"]), st.integers(1, 5))))
def test_never_passes_a_record_that_was_not_seen(steps: list[tuple[str, int]]) -> None:
    """Whatever the interleaving of own writes, others' writes and recoveries (which read from there to the end)."""
    applied = AppliedOffset()
    seen: set[int] = set()
    end = 0
    for step, count in steps:
        if step == "recover":
            start = 0 if applied.offset is None else applied.offset + 1
            seen.update(range(start, end))
            if end:
                applied.read(end - 1)
        else:
            if step == "own":
                seen.update(range(end, end + count))
                applied.wrote(end, end + count - 1, count)
            end += count
        assert seen.issuperset(range((-1 if applied.offset is None else applied.offset) + 1))
