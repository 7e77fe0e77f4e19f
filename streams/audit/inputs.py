"""Records of the input topics and the events that they are, read as the worker reads them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from schemas.cloudevents import InvalidEventError
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.detection.facts import Facts, RunPartition
from streams.processor.intake import read_at


class InputRecord(NamedTuple):
    """One record of an input topic; `timestamp` is the record's, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class Input(NamedTuple):
    """An event that a worker applied: the run, its facts, and the record's timestamp."""

    run_id: str
    facts: Facts
    timestamp: int


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
            run_id, facts = read_at(self._home, cast(Any, record), settings=self._settings)  # a Record that is not written to
        except InvalidEventError:
            self.dead_letters += 1
            return None
        if partition_of(run_id, self._partitions) != record.partition:
            self.misrouted += 1
            return None
        return Input(run_id, facts, record.timestamp)
