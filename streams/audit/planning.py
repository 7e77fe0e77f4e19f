"""What an audit is going to read: topics, partitions, ends as they are now, and how far the workers have got."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit.committed import committed_offsets
from streams.audit.log_reader import LogReader
from streams.audit.ranges import PartitionRange, RangeError, parse_bound, resolve
from streams.audit.verify import PartitionTask
from streams.connection import Connection
from streams.topics_admin import partition_count

#: Seconds for which decisions that are not published yet are waited for.
PATIENCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which events are audited: `start` and `end` as `ranges.parse_bound` reads them, some partitions, or one run."""

    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    run_id: str | None = None


def select(reader: LogReader, settings: Settings, selection: Selection, *, partitions: int) -> list[PartitionRange]:
    """Return the ranges to read; `partitions` is how many there are. Raises `RangeError`."""
    topics = settings.topics
    start = [parse_bound(text, topics=topics) for text in selection.start]
    end = [parse_bound(text, topics=topics) for text in selection.end]
    only: Sequence[int] = selection.partitions
    if selection.run_id is not None:
        home = partition_of(selection.run_id, partitions)
        elsewhere = {bound.partition for bound in (*start, *end) if bound.partition is not None} | set(only)
        if elsewhere - {home}:
            raise RangeError(f"run {selection.run_id} lives in partition {home}, not in {', '.join(map(str, sorted(elsewhere)))}")
        only = (home,)
    return resolve(reader, topics, partitions=partitions, start=start, end=end, only=only)


def plan(
    settings: Settings, selection: Selection, *, policy: PolicyDocument | None = None, patience: float = PATIENCE
) -> list[PartitionTask]:
    """Return what is to be verified, with the ends as they are now.

    `policy` is what was in force before the first marker. Raises `RangeError`, `TopicsError` and `KafkaError`.
    """
    connection = Connection.from_settings(settings)
    with LogReader(connection) as reader:
        # In this order: what is committed now has its decisions before the end that is looked up after it.
        partitions = reader.run(partition_count(connection, settings.topics))
        settled = reader.run(committed_offsets(connection, settings.topics, range(partitions), group=settings.group))
        ranges = select(reader, settings, selection, partitions=partitions)
    until = time.time() + patience
    return [
        PartitionTask(
            settings=settings,
            partitions=partitions,
            range=covered,
            settled=settled[covered.partition],
            run_id=selection.run_id,
            policy=None if policy is None else policy.to_mapping(),
            wait_until=until,
        )
        for covered in ranges
    ]
