"""What contenders wrote to the decisions topic, and what they should have written."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.decisions import DECISION_TYPE
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.detection.engine import apply
from streams.detection.run_state import RunState
from streams.intake.outgoing import OutgoingEvent
from streams.processor.intake import read_record
from tests.bench.workload import Workload, looping_runs

POLICY = {"tools": {"loopDetection": {"enabled": True}}}


@dataclass(kw_only=True, slots=True)
class Decided:
    """Decisions: their records, and the different ids of those that are decisions of ours."""

    records: int = 0
    ids: set[str] = field(default_factory=set)


class EngineAlone:
    """Judges events on their way to their topic; `ids` are those of the decisions that a worker must come to."""

    def __init__(self, settings: Settings, workload: Workload, *, partitions: int) -> None:
        self.ids: set[str] = set()
        self._settings = settings
        self._partitions = partitions
        self._policy = PolicyDocument.from_mapping(POLICY)
        self._states = {run_id: RunState(run_id) for run_id in looping_runs(workload)}
        self._offsets: Counter[int] = Counter()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The ends of the input's partitions, those without an event left out."""
        return {TopicPartition(self._settings.topics.tool_calls, number): end for number, end in self._offsets.items()}

    def see(self, event: OutgoingEvent) -> None:
        """Take the next event of the topic."""
        partition = partition_of(event.run_id, self._partitions)
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        state = self._states.get(event.run_id)
        if state is not None:
            record = SimpleNamespace(
                topic=event.topic, partition=partition, offset=offset, timestamp=0, key=event.key, value=event.value, headers=()
            )
            _, facts = read_record(record, settings=self._settings)
            self.ids.update(decision.decision_id for decision in apply(state, facts, self._policy).decisions)


class DecisionsTopic:
    """Reads a decisions topic from where it was last read."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._places = [TopicPartition(topic, number) for number in range(partitions)]
        self._next: Counter[TopicPartition] = Counter()

    async def news(self) -> Decided:
        """Return what was written since the last time."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False, fetch_max_wait_ms=100)
        await consumer.start()
        try:
            consumer.assign(self._places)
            for place in self._places:
                consumer.seek(place, self._next[place])
            found = Decided()
            # The high watermark of a fetch: Tansu 0.6 answers ListOffsets with the first offset of the last batch.
            while any((end := consumer.highwater(place)) is None or self._next[place] < end for place in self._places):
                for place, records in (await consumer.getmany(timeout_ms=100)).items():
                    self._next[place] = records[-1].offset + 1
                    self._count(found, (record.value for record in records if record.key is not None))
            return found
        finally:
            await consumer.stop()

    @staticmethod
    def _count(found: Decided, values: Iterable[bytes]) -> None:
        for value in values:
            found.records += 1
            event = orjson.loads(value)
            if event.get("type") == DECISION_TYPE:
                found.ids.add(event["id"])
