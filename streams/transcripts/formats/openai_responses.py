"""Items of OpenAI's Responses API: an item a line, lists of items, responses, and logged requests with them.

Source: OpenAI's API reference (Responses: input items, output items, `previous_response_id`, `conversation`, `usage`).

* A list of items, or an object with `input` or `output`, is a run; a file with one item a line is one run. Responses that name
  the one before (`previous_response_id`) or their conversation belong to one run.
* Logs of requests repeat the input each time: a record whose items begin with all of an earlier one's goes on with its run.
* A `compaction` item is a compaction.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from streams.transcripts.amounts import count, total
from streams.transcripts.format import FileContext, Format
from streams.transcripts.growing import GrowingConversations
from streams.transcripts.items import Compacted, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record
from streams.transcripts.responses_items import call_items, is_call, is_item, is_outcome, outcome_item, unknown_item
from streams.transcripts.words import word

_MEMBERS = ("type", "role", "content", "call_id", "name", "arguments", "input", "action", "output")
_LISTS = ("input", "output", "items", "data")
_MAX_RESPONSES = 100_000


def recognises(value: Any) -> bool:
    """Whether a record is an item, a response, or a list page or request with items."""
    if is_item(value):
        return "payload" not in value
    if not isinstance(value, dict):
        return False
    if value.get("object") == "response":
        return True
    if isinstance(value.get("request"), dict) and recognises(value["request"]):
        return True
    lists = [value[name] for name in _LISTS if isinstance(value.get(name), list)]
    return any(is_item(item) for items in lists for item in items[:20])


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        self._conversations = GrowingConversations(_MEMBERS)
        self._run_of_response: OrderedDict[str, str] = OrderedDict()

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        value = record.value
        if not isinstance(value, dict):
            yield NotUnderstood(place, "not an item")
            return
        if isinstance(value.get("type"), str) and "object" not in value:
            run_id = self._context.run_id_at(record.document if record.element else 1)
            yield from self._item(value, RunRef(run_id, run_id), place, _time(value))
            return
        request, response = value.get("request"), value.get("response")
        asked = request if isinstance(request, dict) else value
        answered = response if isinstance(response, dict) else value
        if not any(name in holder for holder in (asked, answered) for name in _LISTS):
            yield NotUnderstood(place, "not an item, and no items in it")
            return
        given: list[Any] = next((asked[name] for name in ("input", "items", "data") if isinstance(asked.get(name), list)), [])
        output = answered.get("output")
        made = output if isinstance(output, list) else []
        time = _time(answered) or _time(value)
        named = self._named(asked, answered)
        if not record.first:
            run_id = named or self._context.run_id_at(record.document, record.element)
            yield from self._items([*given, *made], RunRef(run_id, run_id), place, time)
            return
        resumed, known, digest = self._conversations.resume(given)
        run_id = named or resumed or self._context.run_id_at(record.document, record.element)
        run = RunRef(run_id, run_id)
        if isinstance(asked.get("input"), str):
            yield PromptGiven(run, place, time)
        yield from self._items(given[known:], run, place, time)
        yield from _spent(answered, run, place, time)
        yield from self._items(made, run, place, time)
        self._conversations.ended(run_id, digest, made)
        self._remember(answered, run_id)

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _named(self, asked: dict[str, Any], answered: dict[str, Any]) -> str | None:
        for holder in (answered, asked):
            conversation = holder.get("conversation")
            name = conversation.get("id") if isinstance(conversation, dict) else conversation
            if isinstance(name, str) and name:
                return name
        for holder in (answered, asked):
            before = holder.get("previous_response_id")
            if isinstance(before, str) and before:
                return self._run_of_response.get(before, before)
        return None

    def _remember(self, answered: dict[str, Any], run_id: str) -> None:
        if isinstance(response_id := answered.get("id"), str):
            self._run_of_response[response_id] = run_id
            if len(self._run_of_response) > _MAX_RESPONSES:
                self._run_of_response.popitem(last=False)

    def _items(self, items: list[Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        for item in items:
            if isinstance(item, dict):
                yield from self._item(item, run, place, _time(item) or time)
            else:
                yield NotUnderstood(place, "not an item")

    def _item(self, item: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        kind = word(item.get("type", "message" if "role" in item else ""))
        if kind == "message" and ("tool_calls" in item or item.get("role") == "tool"):
            yield NotUnderstood(place, "a message of the Chat Completions API among items (give --format openai-chat)")
        elif kind == "message" and item.get("role") == "user":
            yield PromptGiven(run, place, time)
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            yield Compacted(run, place, time)
        elif is_call(kind):
            yield from call_items(item, run, place, time, self._calls)
        elif is_outcome(kind):
            yield outcome_item(item, run, place, time, self._calls)
        elif (unknown := unknown_item(kind, place)) is not None:
            yield unknown


def _spent(answered: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
    usage = answered.get("usage")
    if isinstance(usage, dict):
        tokens = count(usage.get("total_tokens")) or total(usage, "input_tokens", "output_tokens")
        if tokens:
            yield Spent(run, place, time, tokens)


def _time(value: dict[str, Any]) -> int | None:
    return next((time for name in ("created_at", "timestamp") if (time := milliseconds(value.get(name))) is not None), None)


FORMAT = Format(name="openai-responses", title="OpenAI Responses items", recognises=recognises, reader=_Reader)
