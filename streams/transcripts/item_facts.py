"""Items as the engine takes them in."""

from schemas.cloudevents import CloudEvent
from streams.detection.facts import Facts, RunPartition, facts_of
from streams.transcripts.item_events import event_of
from streams.transcripts.items import CallFinished, RunItem

#: Stands for the topic in decisions about logs.
LOG = RunPartition("log", 0)


def item_facts(item: RunItem, *, sequence: int, offset: int, time: int) -> Facts | None:
    """Return the facts of an item, None when detection knows nothing of such items.

    `sequence` and `offset` are its places in its run and among all items; `time` stands in for a missing one. Raises `ValueError`
    for a result that cannot be hashed.
    """
    data = event_of(item)
    if data is None:
        return None
    event = CloudEvent.model_construct(
        specversion="1.0", id="-", source="-", type=data.event_type(), time=item.time, sequence=sequence
    )
    facts = facts_of(event, data, partition=LOG, offset=offset, timestamp=time)
    if isinstance(item, CallFinished) and item.unknown_tool is not None and facts.outcome is not None:
        # The reader knows how its system says that a tool does not exist; the fingerprint knows only the reference's words.
        return facts._replace(unknown_tool=facts.unknown_tool or item.unknown_tool.lower())
    return facts
