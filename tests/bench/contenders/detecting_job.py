"""Our detection, called once per event on a state of bytes, as another runtime's state API keeps it."""

from types import SimpleNamespace

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.run_state import RunState
from streams.processor.intake import read_record
from tests.bench.decided import POLICY


class DetectingJob:
    """The job of a worker for one event."""

    def __init__(self, topic: str) -> None:
        self._policy = PolicyDocument.from_mapping(POLICY)
        self._settings = Settings(topic_prefix=topic.removesuffix("agent.tool-calls.v1"))

    def step(
        self, stored: bytes | None, *, topic: str, partition: int, offset: int, timestamp: int, key: bytes, value: bytes
    ) -> tuple[bytes, list[bytes]]:
        """Return the new state and the decisions."""
        record = SimpleNamespace(
            topic=topic, partition=partition, offset=offset, timestamp=timestamp, key=key, value=value, headers=()
        )
        run_id, facts = read_record(record, settings=self._settings)
        state = RunState(run_id) if stored is None else state_codec.decode(run_id, stored)
        applied = apply(state, facts, self._policy)
        return state_codec.encode(state), [decision.to_record(source="bench") for decision in applied.decisions]
