"""Ids of late."""

from hypothesis import given
from hypothesis import strategies as st

from streams.enforcement.recent_ids import RecentIds


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 10))
def test_the_newest_different_ids_are_known_and_no_others(numbers: list[int], limit: int) -> None:
    ids = RecentIds(limit)
    for number in numbers:
        ids.add(f"{number:032x}")
    newest = list(dict.fromkeys(reversed(numbers)))[:limit]
    assert {number for number in range(31) if f"{number:032x}" in ids} == set(newest)
    assert len(ids) == len(newest)
