"""A run for each partition that brings a decision with every call: their times show how long a partition stands still."""

from itertools import count

from schemas.topics import partition_of
from tests.faults.workload.events import Input, RunEvents


def pulses(*, calls: int, partitions: int) -> list[Input]:
    """Return looping runs, one for each partition, in turns."""
    runs = [RunEvents(_name_for(number, partitions), partitions) for number in range(partitions)]
    for run in runs:
        for _ in range(calls):
            run.call("read", {"path": "a.txt"}, "the same")
    return [event for turn in zip(*(run.made for run in runs), strict=True) for event in turn]


def _name_for(partition: int, partitions: int) -> str:
    return next(name for number in count() if partition_of(name := f"pulse-{number}", partitions) == partition)
