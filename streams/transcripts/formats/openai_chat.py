"""Messages of the Chat Completions API, in requests, logs, data sets and plain lists; Anthropic's message blocks in them too.

Source: OpenAI's API reference (Chat: messages, tool calls, the older `function_call`, `usage`). Read are a message a line, a list
of messages, and objects with `messages` and, where they log a response, `choices` or a `response` with them.

* A list of messages, or an object with them (also as `traj`, `conversation`, `history` or `trajectory`), is a run; a file with
  one message a line is one run. An object may name its conversation (`conversation_id`, `session_id`, `thread_id`, `trace_id`,
  `run_id`, also inside `metadata`).
* Logs of requests repeat the conversation each time: a record whose messages begin with all of an earlier one's goes on with its
  run.
* The API marks no failed results, so none is taken for an error, except Anthropic's `is_error`.
"""

from collections.abc import Iterator
from typing import Any

from streams.transcripts.amounts import count, money, total
from streams.transcripts.content import arguments, error_message, tool_result
from streams.transcripts.format import FileContext, Format
from streams.transcripts.growing import GrowingConversations
from streams.transcripts.items import Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record
from streams.transcripts.tool_blocks import tool_blocks
from streams.transcripts.words import word

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_NAMES = ("conversation_id", "session_id", "thread_id", "trace_id", "run_id", "custom_id")
_TIMES = ("timestamp", "created_at", "created", "time", "ts")
#: Where records keep their messages: requests and data sets, and the results of benchmarks.
_LISTS = ("messages", "traj", "conversation", "history", "trajectory")
_MEMBERS = ("role", "content", "tool_calls", "function_call", "tool_call_id", "name")


def recognises(value: Any) -> bool:
    """Whether a record is a message, or has messages or choices."""
    if not isinstance(value, dict):
        return False
    if word(value.get("role")) in _ROLES and ("content" in value or "tool_calls" in value) and "type" not in value:
        return True
    for name in _LISTS:
        messages = value.get(name)
        if isinstance(messages, list) and messages:
            return all(isinstance(message, dict) and word(message.get("role")) in _ROLES for message in messages[:3])
    return isinstance(value.get("choices"), list) or (isinstance(value.get("request"), dict) and recognises(value["request"]))


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        self._conversations = GrowingConversations(_MEMBERS)

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        value = record.value
        if not isinstance(value, dict):
            yield NotUnderstood(place, "not a message")
            return
        time = _time(value)
        if word(value.get("role")) in _ROLES:
            document = record.document if record.element else 1
            run_id = _name(value) or self._context.run_id_at(document)
            yield from self._message(value, RunRef(run_id, run_id), place, time)
            return
        request = value.get("request")
        source: dict[str, Any] = request if isinstance(request, dict) and "messages" in request else value
        messages = next((source[name] for name in _LISTS if isinstance(source.get(name), list)), None)
        answers = list(_answers(value))
        if not isinstance(messages, list) and not answers:
            yield NotUnderstood(place, "not a message, and no messages in it")
            return
        given = messages if isinstance(messages, list) else []
        run_id = _name(value) or _name(source) or self._context.run_id_at(record.document, record.element)
        if not record.first or (not given and not answers):  # a part of a large document, or its outline
            yield from self._all(given, RunRef(run_id, run_id), place, time)
            return
        named = _name(value) or _name(source)
        resumed, known, digest = self._conversations.resume(given)
        run_id = named or resumed or run_id
        run = RunRef(run_id, run_id)
        yield from self._all(given[known:], run, place, time)
        yield from _spent(value, run, place, time)
        yield from self._all(answers, run, place, time)
        self._conversations.ended(run_id, digest, answers)

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _all(self, messages: list[Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        for message in messages:
            if isinstance(message, dict) and word(message.get("role")) in _ROLES:
                yield from self._message(message, run, place, _time(message) or time)
            else:
                yield NotUnderstood(place, "not a message")

    def _message(self, message: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        role, content = message["role"], message.get("content")
        yield from _spent(message, run, place, time)
        if role == "tool":
            yield self._calls.finish(
                run, place, time, call_id=message.get("tool_call_id"), tool=message.get("name"), result=tool_result(content)
            )
        elif role == "function":
            yield self._calls.finish(run, place, time, tool=message.get("name"), result=tool_result(content))
        elif role == "assistant":
            yield from self._made(message, run, place, time)
        blocks = list(tool_blocks(content))
        for block in blocks:
            if block.kind == "use":
                yield self._calls.start(run, place, time, call_id=block.call_id, tool=block.tool, params=block.content)
            else:
                outcome: dict[str, Any] = {"error": error_message(block.content)} if block.is_error else {}
                if not outcome:
                    outcome["result"] = tool_result(block.content)
                yield self._calls.finish(run, place, time, call_id=block.call_id, **outcome)
        if role == "user" and not blocks:
            yield PromptGiven(run, place, time)

    def _made(self, message: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                yield NotUnderstood(place, "a tool call that is no object")
                continue
            function = call.get("function")
            custom = call.get("custom")
            said = function if isinstance(function, dict) else custom if isinstance(custom, dict) else call
            given = said.get("arguments", said.get("input", said.get("args")))
            yield self._calls.start(run, place, time, call_id=call.get("id"), tool=said.get("name"), params=arguments(given))
        older = message.get("function_call")
        if isinstance(older, dict):
            yield self._calls.start(
                run, place, time, call_id=None, tool=older.get("name"), params=arguments(older.get("arguments"))
            )


def _answers(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the message of the first choice of a response, wherever a log keeps the response."""
    response = value.get("response")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    source = response if isinstance(response, dict) and "choices" in response else value
    choices = source.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if isinstance(message, dict):
        yield {"role": "assistant", **message}


def _spent(value: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
    response = value.get("response")
    if isinstance(response, dict) and isinstance(response.get("body"), dict):
        response = response["body"]
    for holder in (value, response):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            tokens = count(usage.get("total_tokens")) or total(
                usage, "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"
            )
            cost = money(usage.get("cost"))
            if tokens or cost:
                yield Spent(run, place, time, tokens, cost)
            return


def _name(value: dict[str, Any]) -> str | None:
    metadata = value.get("metadata")
    for holder in (value, metadata if isinstance(metadata, dict) else {}):
        for name in _NAMES:
            if isinstance(found := holder.get(name), str) and found:
                return found
    return None


def _time(value: dict[str, Any]) -> int | None:
    return next((time for name in _TIMES if (time := milliseconds(value.get(name))) is not None), None)


FORMAT = Format(name="openai-chat", title="OpenAI chat messages", recognises=recognises, reader=_Reader)
