"""Records of the input topics and the events that they are, read as the worker reads them."""

from collections.abc import Container, Iterable, Iterator
from typing import final

from aiokafka import TopicPartition
from mypy_extensions import mypyc_attr

from schemas.cloudevents import InvalidEventError
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.detection.facts import Facts, RunPartition
from streams.processor.intake import read_at
from streams.processor.quick_intake import quick_facts
from streams.transport import BareRecord, DeliveredRecord, delivered

#: One record of an input topic with the name of its place, as a worker has those that somebody has to look at.
InputRecord = DeliveredRecord


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Input:
    """An event that a worker applied: the run, its facts, and the record's timestamp."""

    __slots__ = ("facts", "run_id", "timestamp")

    def __init__(self, run_id: str, facts: Facts, timestamp: int) -> None:
        self.run_id = run_id
        self.facts = facts
        self.timestamp = timestamp


class InputReader:
    """Reads the records of one partition of both input topics as its worker did.

    `dead_letters` and `misrouted` count what came to nothing there.
    """

    def __init__(self, *, settings: Settings, partition: int, partitions: int) -> None:
        self.dead_letters = 0
        self.misrouted = 0
        self._settings = settings
        self._home = RunPartition(settings.topics.tool_calls, partition)
        self._partitions = partitions

    def read(self, record: InputRecord) -> Input | None:
        """Return the event of a record; None for dead letters and events of another partition."""
        try:
            run_id, facts = read_at(self._home, record.topic, record, settings=self._settings)
        except InvalidEventError:
            self.dead_letters += 1
            return None
        if partition_of(run_id, self._partitions) != record.partition:
            self.misrouted += 1
            return None
        return Input(run_id, facts, record.timestamp)

    def read_tool_calls(self, records: Iterable[BareRecord], *, known: Container[str] = ()) -> Iterator[Input]:
        """Yield the events of many records of the tool-calls topic; `known` are runs of this partition.

        The same as `read` of each: nearly all are what the quick intake reads, and for these nothing else is made or asked.
        """
        home, most, partitions = self._home, self._settings.max_event_bytes, self._partitions
        place = TopicPartition(*home)
        for record in records:
            quick = quick_facts(record, partition=home, max_bytes=most)
            if quick is None:
                event = self.read(delivered(place, record))
                if event is not None:
                    yield event
                continue
            run_id, facts = quick
            if run_id in known or partition_of(run_id, partitions) == home.number:
                yield Input(run_id, facts, record.timestamp or 0)
            else:
                self.misrouted += 1
