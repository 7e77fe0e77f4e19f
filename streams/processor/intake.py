"""From the records of the input topics to facts for the engine."""

from schemas.cloudevents import InvalidEventError
from schemas.events import COMPACTION_EVENTS, TOOL_CALL_EVENTS, parse_event
from schemas.settings import Settings
from streams.detection.facts import Facts, RunPartition, facts_of
from streams.processor.quick_intake import quick_facts
from streams.transport import BareRecord, Record


def read_record(record: Record, *, settings: Settings) -> tuple[str, Facts]:
    """Return the run id and the facts of a record.

    Raises `InvalidEventError`. Content that cannot be fingerprinted (nested too deep) is invalid too.
    """
    return read_at(RunPartition(settings.topics.tool_calls, record.partition), record.topic, record, settings=settings)


def read_at(home: RunPartition, topic: str, record: BareRecord, *, settings: Settings) -> tuple[str, Facts]:
    """Do the same for a record of a topic whose runs live at `home`, which is made once for many records."""
    if topic == home.topic:
        quick = quick_facts(record, partition=home, max_bytes=settings.max_event_bytes)
        if quick is not None:
            return quick
    return facts_by_models(record, topic=topic, partition=home, settings=settings)


def facts_by_models(record: BareRecord, *, topic: str, partition: RunPartition, settings: Settings) -> tuple[str, Facts]:
    """Return the run id and the facts of a record as the models of `schemas` read it; raises `InvalidEventError`."""
    models = TOOL_CALL_EVENTS if topic == settings.topics.tool_calls else COMPACTION_EVENTS
    event, data = parse_event(record.value, record.headers, key=record.key, max_bytes=settings.max_event_bytes, models=models)
    try:
        facts = facts_of(event, data, partition=partition, offset=record.offset, timestamp=record.timestamp)
    except ValueError as error:
        raise InvalidEventError("invalid_data", f"data: {error}") from None
    return data.run_id, facts
