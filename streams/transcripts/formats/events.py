"""Our own events: a structured CloudEvent a line, as `kcat` prints them and `loopwarden import` writes them.

`kcat -J` envelopes (`topic`, `partition`, `offset`, `payload`) are opened. Decisions and policies are passed over. A file in
which a run of another file begins again, with events that are no copies, has a run of its own by that name: `<run>@<file>`.
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
        self._runs: dict[str, str] = {}

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
                yield self._named(event, _item(event, model.model_validate(event.data), place))
        except ValidationError as error:
            yield NotUnderstood(place, describe(error))
            return
        if model is None and not event.type.startswith(TYPE_PREFIX):
            yield NotUnderstood(place, "a CloudEvent of another type")

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _named(self, event: CloudEvent, item: RunItem) -> RunItem:
        """Give a run of this file a name of its own when it begins again, with other events, what another file had."""
        run_id, names, file = item.run.run_id, self._context.names, self._context.file
        copied = not self._context.seen.add("event", event.source, event.id)
        if event.sequence is None:
            return item
        if run_id not in self._runs and not copied:
            goes_on = names.goes_on(run_id, file, event.sequence)
            self._runs[run_id] = run_id if goes_on else f"{run_id}@{self._context.run_id}"
        name = self._runs.get(run_id, run_id)
        if name == run_id:
            names.reached(run_id, file, event.sequence)
            return item
        return item._replace(run=item.run._replace(run_id=name))


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
