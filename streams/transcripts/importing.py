"""Turn the items of logs into event lines, as their gateway would have published them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import xxhash

from schemas import cloudevents
from schemas.events import CompactionCompleted, RunEvent
from schemas.topics import Topics
from streams.intake.outgoing import OutgoingEvent
from streams.reports.scan_report import LinesNotUnderstood
from streams.transcripts.item_events import event_of, without_content
from streams.transcripts.items import Copied, Item, NotUnderstood, PromptGiven, RunItem, Spent

SOURCE = "/loopwarden/import"


@dataclass(slots=True)
class Imported:
    """What an import made of logs."""

    events: int = 0
    copies: int = 0
    #: events that were too large with their content and went out with hashes instead
    reduced: int = 0
    not_understood: LinesNotUnderstood = field(default_factory=LinesNotUnderstood)
    runs: dict[str, int] = field(default_factory=dict)


def events_of_items(
    items: Iterable[Item],
    *,
    topics: Topics,
    max_event_bytes: int,
    imported: Imported,
    content: bool = False,
    run_prefix: str = "",
    agent_id: str | None = None,
) -> Iterator[OutgoingEvent]:
    """Yield an event for each item that detection knows of; prompts and usage are none.

    Sequences count from 1 in each run, so that importing the same logs again gives the same events, which workers take for the
    copies that they are. Sequences of logs that have their own are kept. `content`: send what calls were given and answered, and
    not only hashes of it. `agent_id` is for runs whose log does not name their agent.
    """
    for item in items:
        if isinstance(item, NotUnderstood):
            imported.not_understood.add(str(item.place), item.reason)
        elif isinstance(item, Copied):
            imported.copies += 1
        elif not isinstance(item, PromptGiven | Spent):
            try:
                named = _named(item, run_prefix=run_prefix, agent_id=agent_id)
                yield _outgoing(named, topics=topics, max_event_bytes=max_event_bytes, imported=imported, content=content)
            except (TypeError, ValueError) as error:
                imported.not_understood.add(str(item.place), f"content that cannot be sent: {error}")


def _named(item: RunItem, *, run_prefix: str, agent_id: str | None) -> RunItem:
    if not run_prefix and agent_id is None:
        return item
    run = item.run
    parent = None if run.parent_run_id is None else run_prefix + run.parent_run_id
    return item._replace(
        run=run._replace(run_id=run_prefix + run.run_id, agent_id=run.agent_id or agent_id, parent_run_id=parent)
    )


def _outgoing(item: RunItem, *, topics: Topics, max_event_bytes: int, imported: Imported, content: bool) -> OutgoingEvent:
    given = getattr(item, "sequence", None)
    before = imported.runs.get(item.run.run_id, 0)
    sequence = given if given is not None else before + 1
    event = event_of(item) if content else without_content(item)
    if event is None:
        raise ValueError("nothing that an event could say")
    event.run_id.encode()  # fails for half characters, which no record key may have
    value = _written(event, item, sequence)
    if content and len(value) > max_event_bytes:
        reduced = without_content(item)
        value = _written(reduced or event, item, sequence)
        imported.reduced += 1
    imported.runs[item.run.run_id] = max(before, sequence)
    imported.events += 1
    topic = topics.compactions if isinstance(event, CompactionCompleted) else topics.tool_calls
    return OutgoingEvent(topic=topic, key=event.run_id.encode(), value=value, run_id=event.run_id, sequence=sequence)


def _written(event: RunEvent, item: RunItem, sequence: int) -> bytes:
    # In the order of the model's fields, whatever the order in which they were set.
    data: dict[str, Any] = {name: getattr(event, name) for name in type(event).model_fields if name in event.model_fields_set}
    return cloudevents.structured(
        event_type=event.event_type(),
        source=SOURCE,
        # A hash, because a run id may be as long as an event id already; the same event always gets the same id.
        event_id=xxhash.xxh3_128_hexdigest(f"{event.run_id}:{sequence}".encode()),
        run_id=event.run_id,
        data=data,
        time=item.time,
        sequence=sequence,
    )
