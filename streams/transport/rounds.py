"""Which slices of what a fetch brought are delivered together."""

from collections import deque
from collections.abc import Sequence

from faust.types import TP

from streams.transport.records import RecordSlice

#: Records that are delivered together. More in a row would keep the decisions of the first waiting for the others.
ROUND_RECORDS = 500

Slices = deque[tuple[TP, deque[RecordSlice]]]
Round = Sequence[tuple[TP, RecordSlice]]


def next_round(slices: Slices) -> Round:
    """Take a slice of each partition in turn until there are records enough, and leave the rest behind those of the others."""
    found: list[tuple[TP, RecordSlice]] = []
    size = 0
    for _ in range(len(slices)):
        tp, remaining = slices.popleft()
        taken = remaining.popleft()
        found.append((tp, taken))
        if remaining:
            slices.append((tp, remaining))
        size += taken.size
        if size >= ROUND_RECORDS:
            break
    return found
