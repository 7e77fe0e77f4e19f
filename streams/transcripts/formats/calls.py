"""Lists of tool calls: one JSON object a line with `run, seq, tool, args, result, is_error, call_id, ts`.

The same lines as `loopwarden publish --from calls` takes (`streams.intake.call_lines`), with the same meaning. `seq` must rise
within a run: a line that repeats one, or falls behind, is taken for a copy, as a worker takes it. A file in which a run of
another file begins again has a run of its own by that name: `<run>@<file>`.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from streams.transcripts.content import arguments
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import Copied, Item, NotUnderstood, RunRef
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record

_MAX_RUNS = 1_000_000


def recognises(value: Any) -> bool:
    """Whether a record has the run, the number and the tool of a call."""
    return isinstance(value, dict) and {"run", "seq", "tool"} <= value.keys()


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        self._last: OrderedDict[str, int] = OrderedDict()
        self._aliases: dict[str, str] = {}

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        call = record.value
        if not recognises(call):
            yield NotUnderstood(place, "a call needs run, seq and tool")
            return
        run_id, seq = call["run"], call["seq"]
        if not isinstance(run_id, str) or not run_id or len(run_id) > 1024:
            yield NotUnderstood(place, "run: must be text of 1 to 1024 characters")
            return
        if not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
            yield NotUnderstood(place, "seq: must be a whole number, 0 or more")
            return
        if run_id not in self._last and not self._context.names.goes_on(run_id, self._context.file, seq):
            self._aliases[run_id] = f"{run_id}@{self._context.run_id}"
        if seq <= self._last.get(run_id, -1):
            yield Copied(place)
            return
        self._last[run_id] = seq
        if run_id not in self._aliases:
            self._context.names.reached(run_id, self._context.file, seq)
        if len(self._last) > _MAX_RUNS:
            self._last.popitem(last=False)
        run = RunRef(self._aliases.get(run_id, run_id))
        time = milliseconds(call.get("ts"))
        params = arguments(call.get("args"))
        started = self._calls.start(run, place, time, call_id=call.get("call_id"), tool=call["tool"], params=params)
        yield started
        if isinstance(started, NotUnderstood):
            return
        outcome: dict[str, Any] = {}
        if call.get("result") is not None:
            outcome["error" if call.get("is_error") is True else "result"] = call["result"]
        yield self._calls.finish(run, place, time, call_id=started.call_id, tool=started.tool, **outcome)

    def finish(self) -> Iterator[Item]:
        return iter(())


FORMAT = Format(name="calls", title="lists of tool calls", recognises=recognises, reader=_Reader)
