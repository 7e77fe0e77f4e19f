"""The events that `codex exec --json` prints: threads, turns, and items that start and complete.

Written from openai/codex (codex-rs/exec/src/exec_events.rs: ThreadEvent, ThreadItemDetails).
"""

from collections.abc import Iterator
from typing import Any

from streams.transcripts.amounts import total
from streams.transcripts.content import arguments, error_message, tool_result
from streams.transcripts.items import CallStarted, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.words import word

_EVENTS = ("thread.", "turn.", "item.")
_ITEMS_WITHOUT_CALLS = frozenset({"agent_message", "error", "reasoning", "todo_list"})


def is_stream_event(value: Any) -> bool:
    """Whether a record is an event of the stream."""
    return isinstance(value, dict) and word(value.get("type")).startswith(_EVENTS)


class CodexStream:
    """Reads the events of one thread."""

    def __init__(self, calls: OpenCalls) -> None:
        self._calls = calls
        self._started: set[str] = set()

    def read(self, event: dict[str, Any], run: RunRef, place: Place) -> Iterator[Item]:
        """Yield the items of an event; `thread.started` is the caller's, who names the run by it."""
        kind = word(event.get("type"))
        if kind == "turn.started":
            yield PromptGiven(run, place, None)
        elif kind == "turn.completed":
            tokens = total(event.get("usage"), "input_tokens", "output_tokens")  # cached ones are among the input
            if tokens:
                yield Spent(run, place, None, tokens)
        elif kind.startswith("item."):
            yield from self._item(event.get("item"), run, place, completed=kind == "item.completed")

    def _item(self, item: Any, run: RunRef, place: Place, *, completed: bool) -> Iterator[Item]:
        if not isinstance(item, dict):
            yield NotUnderstood(place, "an event without an item")
            return
        kind = word(item.get("type", item.get("item_type")))
        if kind in _ITEMS_WITHOUT_CALLS:
            return
        described = _described(kind, item)
        if described is None:
            yield NotUnderstood(place, "an unknown type of item")
            return
        tool, params, outcome = described
        item_id = word(item.get("id"))
        if item_id not in self._started:
            call = self._calls.start(run, place, None, call_id=item_id, tool=tool, params=params)
            yield call
            if not isinstance(call, CallStarted):
                return
            self._started.add(item_id)
        if completed:
            self._started.discard(item_id)
            yield self._calls.finish(run, place, None, call_id=item_id, tool=tool, **outcome)


def _described(kind: str, item: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]] | None:
    """Return tool, arguments and outcome of an item that is a call."""
    failed = word(item.get("status")) == "failed"
    if kind == "command_execution":
        output = tool_result(word(item.get("aggregated_output")), details={"exit_code": item.get("exit_code")})
        return "command_execution", {"command": item.get("command")}, {"result": output}
    if kind == "mcp_tool_call":
        server = word(item.get("server"))
        tool = f"{server}__{word(item.get('tool'))}" if server else item.get("tool")
        error = item.get("error")
        outcome = {"error": error_message(error or "failed")} if failed or error else {"result": tool_result(item.get("result"))}
        return tool, arguments(item.get("arguments")), outcome
    if kind == "file_change":
        return "file_change", {"changes": item.get("changes")}, {"error": "failed"} if failed else {"result": "completed"}
    if kind == "web_search":
        return "web_search", {"query": item.get("query")}, {}
    if kind == "collab_tool_call":
        return item.get("tool"), {"prompt": item.get("prompt"), "to": item.get("receiver_thread_ids")}, {}
    return None
