"""OpenTelemetry traces: OTLP/JSON exports (a document, or one a line, as the Collector's file exporter writes) and single spans.

Written from the OTLP specification (opentelemetry-proto, JSON encoding) and the GenAI semantic conventions
(open-telemetry/semantic-conventions-genai, docs/gen-ai/execute-tool.md). Spans as SDKs print them (`context.trace_id`, attributes
as a mapping) are read too, and the tool spans of OpenInference and Traceloop, which came before the conventions.

* A span with `gen_ai.operation.name` = `execute_tool` is a call. `gen_ai.conversation.id`, else the trace, is its run; an agent
  on the span (`gen_ai.agent.id` or `.name`) makes a run of its own below it. Another trace of a conversation is a new turn.
* Spans come when they end: they are put in order of time within a window, so that a file of any size can be read.
* Content is recorded only where the operator asked for it. A span without arguments cannot be told from another call of its tool,
  so it is not judged but counted as not understood.
* Spans that were exported twice count once. `gen_ai.usage.*` of model spans is what was spent.
"""

import heapq
from collections.abc import Iterator
from typing import Any

from schemas.fingerprints import MISSING
from streams.transcripts.amounts import money, total
from streams.transcripts.content import arguments, tool_result
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import Copied, Item, NotUnderstood, Place, PromptGiven, RunItem, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.otlp_attributes import plain_attributes
from streams.transcripts.records import Record
from streams.transcripts.seen import digest

#: Items held back to put them in order: exporters send a batch every few seconds, of 512 spans by default.
_WINDOW = 8192

_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "tool.parameters")
_RESULTS = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_OTHER_SIGNALS = ("resourceLogs", "resourceMetrics", "resource_logs", "resource_metrics")


def recognises(value: Any) -> bool:
    """Whether a record is an OTLP export or a span."""
    if not isinstance(value, dict):
        return False
    if any(name in value for name in ("resourceSpans", "resource_spans", *_OTHER_SIGNALS)):
        return True
    return _ids(value) is not None and ("attributes" in value or "name" in value)


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        self._waiting: list[tuple[int, int, RunItem]] = []
        self._number = 0

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        value = record.value
        if not recognises(value):
            yield NotUnderstood(place, "neither an OTLP export nor a span")
            return
        for span in _spans(value):
            yield from self._span(span, place)
        while len(self._waiting) > _WINDOW:
            yield heapq.heappop(self._waiting)[2]

    def finish(self) -> Iterator[Item]:
        while self._waiting:
            yield heapq.heappop(self._waiting)[2]

    def _span(self, span: Any, place: Place) -> Iterator[Item]:
        ids = _ids(span) if isinstance(span, dict) else None
        if ids is None:
            yield NotUnderstood(place, "a span without ids")
            return
        attributes = plain_attributes(span.get("attributes"))
        tool = _tool(span, attributes)
        tokens = total(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens") or total(
            attributes, "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"
        )
        is_agent = attributes.get("gen_ai.operation.name") in ("invoke_agent", "invoke_workflow", "create_agent")
        if tool is None and (not tokens or is_agent):  # an agent's span has the sum of its model spans
            return
        if not self._context.seen.add("otlp", *ids, digest(span)):
            yield Copied(place)
            return
        run = _run(ids[0], attributes)
        start = _moment(span, "startTimeUnixNano", "start_time_unix_nano", "start_time")
        end = _moment(span, "endTimeUnixNano", "end_time_unix_nano", "end_time")
        self._prompt(run, ids[0], place, start)
        if tool is None:
            self._hold(start, Spent(run, place, start, tokens, money(attributes.get("gen_ai.usage.cost"))))
        else:
            yield from self._call(span, attributes, tool, run, place, start, end)

    def _prompt(self, run: RunRef, trace_id: str, place: Place, start: int | None) -> None:
        if run.session_id != trace_id and self._context.seen.add("otlp turn", run.run_id, trace_id):
            self._hold(start, PromptGiven(run, place, start))

    def _call(
        self,
        span: dict[str, Any],
        attributes: dict[str, Any],
        tool: Any,
        run: RunRef,
        place: Place,
        start: int | None,
        end: int | None,
    ) -> Iterator[Item]:
        given = next((attributes[name] for name in _ARGUMENTS if name in attributes), MISSING)
        if given is MISSING:
            yield NotUnderstood(place, "a tool span without its arguments: content was not recorded")
            return
        call_id = attributes.get("gen_ai.tool.call.id")
        call = self._calls.start(run, place, start, call_id=call_id, tool=tool, params=arguments(given))
        if isinstance(call, NotUnderstood):
            yield call
            return
        outcome: dict[str, Any] = {}
        if (error := _error(span, attributes)) is not None:
            outcome["error"] = error
        elif (result := next((attributes[name] for name in _RESULTS if name in attributes), MISSING)) is not MISSING:
            outcome["result"] = tool_result(result)
        finished = self._calls.finish(run, place, end, call_id=call.call_id, tool=call.tool, **outcome)
        self._hold(start, call)
        if not isinstance(finished, NotUnderstood):
            self._hold(end if end is not None else start, finished)

    def _hold(self, time: int | None, item: RunItem) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (time or 0, self._number, item))


def _spans(value: dict[str, Any]) -> Iterator[Any]:
    if _ids(value) is not None:
        yield value
        return
    for resource in _lists(value, "resourceSpans", "resource_spans"):
        for scope in _lists(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            yield from _lists(scope, "spans")


def _lists(value: Any, *names: str) -> Iterator[Any]:
    for name in names if isinstance(value, dict) else ():
        if isinstance(found := value.get(name), list):
            yield from found


def _ids(span: dict[str, Any]) -> tuple[str, str] | None:
    context = span.get("context")
    holder = context if isinstance(context, dict) else span
    trace_id = holder.get("traceId", holder.get("trace_id"))
    span_id = holder.get("spanId", holder.get("span_id"))
    if isinstance(trace_id, str) and isinstance(span_id, str) and trace_id and span_id:
        return trace_id.removeprefix("0x"), span_id.removeprefix("0x")
    return None


def _tool(span: dict[str, Any], attributes: dict[str, Any]) -> Any:
    name = span.get("name")
    named = name.removeprefix("execute_tool ") if isinstance(name, str) and name.startswith("execute_tool ") else None
    operation = attributes.get("gen_ai.operation.name")
    older = attributes.get("openinference.span.kind") == "TOOL" or attributes.get("traceloop.span.kind") == "tool"
    if operation == "execute_tool" or (operation is None and named is not None) or older:
        return next((attributes[key] for key in _NAMES if isinstance(attributes.get(key), str)), named or name)
    return None


def _run(trace_id: str, attributes: dict[str, Any]) -> RunRef:
    conversation = attributes.get("gen_ai.conversation.id", attributes.get("session.id"))
    session = conversation if isinstance(conversation, str) and conversation else None
    whole = session or trace_id
    agent = attributes.get("gen_ai.agent.id") or attributes.get("gen_ai.agent.name")
    if isinstance(agent, str) and agent:
        name = attributes.get("gen_ai.agent.name")
        return RunRef(f"{whole}/{agent}", session or trace_id, name if isinstance(name, str) else agent, None)
    return RunRef(whole, session or trace_id)


def _error(span: dict[str, Any], attributes: dict[str, Any]) -> str | None:
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else None
    if code not in (2, "STATUS_CODE_ERROR", "ERROR", "Error") and "error.type" not in attributes:
        return None
    said = status.get("message", status.get("description")) if isinstance(status, dict) else None
    for event in _lists(span, "events"):
        if isinstance(event, dict) and event.get("name") == "exception":
            said = said or plain_attributes(event.get("attributes")).get("exception.message")
    return str(said or attributes.get("error.type") or "error")


def _moment(span: dict[str, Any], *names: str) -> int | None:
    return next((time for name in names if (time := milliseconds(span.get(name))) is not None), None)


FORMAT = Format(name="otlp", title="OpenTelemetry GenAI traces", recognises=recognises, reader=_Reader)
