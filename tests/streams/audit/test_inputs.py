"""Reading of input records as the worker reads them."""

import pytest

from schemas import cloudevents
from schemas.events import CompactionCompleted, RunEnded, ToolCallFinished
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit import InputReader, InputRecord
from streams.processor.intake import read_record
from tests.facts import as_dict

TOPICS = Settings().topics
HASH = "0123456789abcdef" * 2
DATA = {"tool": " Bash", "args_hash": HASH, "outcome_hash": HASH, "will_retry": True}


def record(event_type: str, topic: str, run_id: str = "r") -> InputRecord:
    value = cloudevents.structured(
        event_type=event_type, source="/s", event_id="1", run_id=run_id, data=DATA | {"run_id": run_id}, time=5, sequence=7
    )
    return InputRecord(topic, 0, 3, 9, run_id.encode(), value)


@pytest.mark.parametrize(
    ("model", "topic"),
    [(ToolCallFinished, TOPICS.tool_calls), (RunEnded, TOPICS.tool_calls), (CompactionCompleted, TOPICS.compactions)],
)
def test_an_event_is_read_as_the_worker_reads_it(model: type[RunEnded], topic: str) -> None:
    made = record(model.event_type(), topic)
    found = InputReader(settings=Settings(), partition=0, partitions=1).read(made)
    assert found is not None
    run_id, facts = read_record(made, settings=Settings())  # type: ignore[arg-type]  # a Record that is not written to
    assert (found.run_id, as_dict(found.facts), found.timestamp) == (run_id, as_dict(facts), 9)


def test_what_the_worker_dead_letters_is_counted_and_left_out() -> None:
    reader = InputReader(settings=Settings(), partition=0, partitions=1)
    assert reader.read(record(RunEnded.event_type(), TOPICS.compactions)) is None
    assert reader.read(InputRecord(TOPICS.tool_calls, 0, 4, 9, b"r", b"junk")) is None
    assert (reader.dead_letters, reader.misrouted) == (2, 0)


def test_an_event_of_another_partition_is_misrouted() -> None:
    away = next(name for name in map(str, range(99)) if partition_of(name, 4) != 0)
    reader = InputReader(settings=Settings(), partition=0, partitions=4)
    assert reader.read(record(RunEnded.event_type(), TOPICS.tool_calls, away)) is None
    assert (reader.misrouted, reader.dead_letters) == (1, 0)
