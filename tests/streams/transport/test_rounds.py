"""Which slices are delivered together."""

from collections import deque

from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.records import RecordSlice
from streams.transport.rounds import ROUND_RECORDS, Slices, next_round


def fetched(sizes: list[list[int]]) -> Slices:
    """Make slices of the given sizes for each partition, their records numbered through."""
    slices: Slices = deque()
    for partition, of_partition in enumerate(sizes):
        offset = 0
        remaining: deque[RecordSlice] = deque()
        for size in of_partition:
            remaining.append(RecordSlice(offset, offset + size, []))
            offset += size
        slices.append((TP("calls", partition), remaining))
    return slices


def test_a_small_fetch_is_one_round() -> None:
    found = next_round(fetched([[3], [1], [2]]))
    assert [(tp.partition, one.size) for tp, one in found] == [(0, 3), (1, 1), (2, 2)]


def test_a_full_slice_is_a_round_by_itself() -> None:
    slices = fetched([[ROUND_RECORDS, 1], [1]])
    rounds = []
    while slices:
        rounds.append([(tp.partition, one.size) for tp, one in next_round(slices)])
    assert rounds == [[(0, ROUND_RECORDS)], [(1, 1), (0, 1)]]


@given(st.lists(st.lists(st.integers(1, ROUND_RECORDS), min_size=1, max_size=5), min_size=1, max_size=6))
def test_every_record_is_delivered_once_and_in_order(sizes: list[list[int]]) -> None:
    slices = fetched(sizes)
    delivered: dict[int, list[int]] = {}
    while slices:
        found = next_round(slices)
        partitions = [tp.partition for tp, _ in found]
        assert len(partitions) == len(set(partitions)), "one slice of a partition at a time"
        assert sum(one.size for _, one in found[:-1]) < ROUND_RECORDS
        for tp, one in found:
            delivered.setdefault(tp.partition, []).extend(range(one.start, one.end))
    assert delivered == {partition: list(range(sum(of))) for partition, of in enumerate(sizes)}
