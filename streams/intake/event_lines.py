"""Read lines of structured CloudEvents, as `kcat` prints them from the input topics."""

from collections.abc import Iterable, Iterator

from schemas.cloudevents import InvalidEventError, parse
from schemas.events import COMPACTION_EVENTS, parse_event
from schemas.topics import Topics
from streams.intake.outgoing import InvalidLineError, OutgoingEvent


def events_of_lines(lines: Iterable[bytes], *, name: str, topics: Topics, max_event_bytes: int) -> Iterator[OutgoingEvent]:
    """Yield the event of each line unchanged; blank lines are skipped.

    The topic follows from the type. `name` stands in front of errors. Raises `InvalidLineError` at the first line that is no
    valid event.
    """
    for number, line in enumerate(lines, start=1):
        if value := line.strip():
            try:
                yield outgoing(value, topics=topics, max_event_bytes=max_event_bytes)
            except InvalidEventError as error:
                raise InvalidLineError(name, number, str(error)) from None


def outgoing(value: bytes, *, topics: Topics, max_event_bytes: int) -> OutgoingEvent:
    """Check a structured event as a worker will, and find its topic and key; raises `InvalidEventError`."""
    run_id = _run_id(value) if len(value) <= max_event_bytes else ""  # too large: refused below, without parsing it
    event, data = parse_event(value, key=run_id.encode(), max_bytes=max_event_bytes)
    topic = topics.compactions if event.type in COMPACTION_EVENTS else topics.tool_calls
    return OutgoingEvent(topic=topic, key=run_id.encode(), value=value, run_id=data.run_id, sequence=event.sequence)


def _run_id(value: bytes) -> str:
    data = parse(value).data
    run_id = data.get("run_id") if isinstance(data, dict) else None
    # Anything else is refused by the event's model, which says it better. Lone surrogates are no UTF-8: refused there, too.
    return run_id if isinstance(run_id, str) and _encodes(run_id) else ""


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
