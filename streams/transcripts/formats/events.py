"""Our own events: a structured CloudEvent a line, as `kcat` prints them and `loopwarden import` writes them.

`kcat -J` envelopes (`topic`, `partition`, `offset`, `payload`) are opened. Decisions and policies are passed over.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from schemas import json_text
from schemas.cloudevents import TYPE_PREFIX, CloudEvent, describe
from schemas.events import (
    EVENTS,
    CompactionCompleted,
    RunEnded,
    RunEvent,
    ToolCall,
    ToolCallBlocked,
    ToolCallFinished,
)
from schemas.fingerprints import MISSING
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import (
    CallBlocked,
    CallFinished,
    CallStarted,
    Compacted,
    Item,
    NotUnderstood,
    Place,
    RunFinished,
    RunItem,
    RunRef,
)
from streams.transcripts.records import Record


def recognises(value: Any) -> bool:
    """Whether a record is a CloudEvent, or an envelope of kcat."""
    return isinstance(value, dict) and ("specversion" in value or {"topic", "partition", "offset", "payload"} <= value.keys())


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        value = record.value
        if isinstance(value, dict) and "specversion" not in value and isinstance(value.get("payload"), str):
            try:
                value = json_text.loads(value["payload"].encode(errors="surrogatepass"))
            except ValueError:
                yield NotUnderstood(place, "payload: not JSON")
                return
        try:
            event = CloudEvent.model_validate(value)
            model = EVENTS.get(event.type)
            if model is not None:
                yield _item(event, model.model_validate(event.data), place)
        except ValidationError as error:
            yield NotUnderstood(place, describe(error))
            return
        if model is None and not event.type.startswith(TYPE_PREFIX):
            yield NotUnderstood(place, "a CloudEvent of another type")

    def finish(self) -> Iterator[Item]:
        return iter(())


def _item(event: CloudEvent, data: RunEvent, place: Place) -> RunItem:
    run = RunRef(data.run_id, data.session_id, data.agent_id, data.parent_run_id)
    if isinstance(data, CompactionCompleted):
        return Compacted(
            run, place, event.time, data.will_retry, data.trigger, data.tokens_before, data.tokens_after, event.sequence
        )
    if isinstance(data, RunEnded):
        return RunFinished(run, place, event.time, data.status, event.sequence)
    if not isinstance(data, ToolCall):
        raise TypeError(f"no item is known for {type(data).__name__}")
    call: dict[str, Any] = {
        "params": data.params if data.has_params else MISSING,
        "args_hash": data.args_hash,
        "poll": data.poll,
        "sequence": event.sequence,
    }
    if isinstance(data, ToolCallBlocked):
        return CallBlocked(run, place, event.time, data.call_id, data.tool, data.reason, **call)
    if not isinstance(data, ToolCallFinished):
        return CallStarted(run, place, event.time, data.call_id, data.tool, **call, preview=data.preview)
    return CallFinished(
        run,
        place,
        event.time,
        data.call_id,
        data.tool,
        **call,
        result=data.result if data.has_result else MISSING,
        error=data.error,
        outcome_hash=data.outcome_hash,
        unknown_tool=data.unknown_tool,
        is_error=data.is_error,
    )


FORMAT = Format(name="events", title="Loopwarden events", recognises=recognises, reader=_Reader)
