"""Which slices of what a fetch brought are delivered together."""

from collections import deque
from collections.abc import Sequence

from faust.types import TP

from streams.transport.batch import Record

#: Records that are delivered together. More in a row would keep the decisions of the first waiting for the others.
ROUND_RECORDS = 500

Slices = deque[tuple[TP, deque[Sequence[Record]]]]
Round = Sequence[tuple[TP, Sequence[Record]]]


def next_round(slices: Slices) -> Round:
    """Take a slice of each partition in turn until there are records enough, and leave the rest behind those of the others."""
    found: list[tuple[TP, Sequence[Record]]] = []
    size = 0
    for _ in range(len(slices)):
        tp, remaining = slices.popleft()
        records = remaining.popleft()
        found.append((tp, records))
        if remaining:
            slices.append((tp, remaining))
        size += len(records)
        if size >= ROUND_RECORDS:
            break
    return found
