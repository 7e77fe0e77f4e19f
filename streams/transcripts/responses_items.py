"""Calls and outcomes among the items of OpenAI's Responses API, which Codex keeps in its rollouts too.

Source: the API reference (Responses, input and output items). What ends in `_call` is a call, what ends in `_call_output` or
`tool_search_output` answers one; calls of hosted tools carry their outcome in themselves.
"""

from collections.abc import Iterator
from typing import Any

from schemas.fingerprints import MISSING
from streams.transcripts.content import arguments, error_message, tool_result
from streams.transcripts.items import Item, NotUnderstood, Place, RunRef
from streams.transcripts.open_calls import OpenCalls

#: What a call was given, by the member that has it; the first one that is there counts.
_ARGUMENTS = ("arguments", "input", "action", "operation", "queries", "code", "query", "revised_prompt")
#: Calls of tools that have a name of their own; of other calls the type is the name.
_NAMED = frozenset({"function_call", "custom_tool_call", "mcp_call"})
#: Where hosted tools keep their outcome.
_OUTCOMES = ("output", "outputs", "results", "result", "tools")
_ITEMS_WITHOUT_CALLS = frozenset(
    {
        "agent_message",
        "additional_tools",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "context_compaction",
        "ghost_snapshot",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "message",
        "other",
        "reasoning",
    }
)


def is_item(value: Any) -> bool:
    """Whether a value is an item of a kind that only the Responses API has."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    if kind == "message":
        return "role" in value and "content" in value
    if kind == "reasoning":
        return "summary" in value or "encrypted_content" in value
    return kind.endswith(("_call", "_call_output")) or kind in ("item_reference", "mcp_list_tools", "tool_search_output")


def is_call(kind: str) -> bool:
    """Whether an item's type is that of a call."""
    return kind.endswith("_call")


def is_outcome(kind: str) -> bool:
    """Whether an item's type is that of an answer to a call."""
    return kind.endswith(("_call_output", "tool_search_output"))


def call_items(item: dict[str, Any], run: RunRef, place: Place, time: int | None, calls: OpenCalls) -> Iterator[Item]:
    """Yield the start of a call item, and its end if the item has it."""
    kind = item["type"]
    name = item.get("name") if kind in _NAMED else item.get("name") or kind.removesuffix("_call")
    namespace = item.get("namespace")
    if isinstance(namespace, str) and namespace and isinstance(name, str) and not name.startswith(namespace):
        name = f"{namespace}__{name}"
    server = item.get("server_label")
    if isinstance(server, str) and isinstance(name, str):
        name = f"{server}__{name}"
    given = next((item[member] for member in _ARGUMENTS if item.get(member) is not None), None)
    call_id = item.get("call_id") or item.get("id")
    yield calls.start(run, place, time, call_id=call_id, tool=name, params=arguments(given))
    if item.get("error") is not None:
        yield calls.finish(run, place, time, call_id=call_id, tool=name, error=error_message(item["error"]))
    elif (own := next((item[member] for member in _OUTCOMES if item.get(member) is not None), MISSING)) is not MISSING:
        yield calls.finish(run, place, time, call_id=call_id, tool=name, result=tool_result(own))


def outcome_item(item: dict[str, Any], run: RunRef, place: Place, time: int | None, calls: OpenCalls) -> Item:
    """Return the end of a call from an output item."""
    call_id = item.get("call_id") or item.get("id")
    output = item.get("output", item.get("tools"))
    if item.get("status") == "failed" or item.get("error") is not None:
        error = item.get("error") if item.get("error") is not None else output
        return calls.finish(run, place, time, call_id=call_id, error=error_message(error))
    return calls.finish(run, place, time, call_id=call_id, result=tool_result(output))


def unknown_item(kind: str, place: Place) -> NotUnderstood | None:
    """Return what to say of an item that is neither a call nor an answer, or None when it is known to say nothing of calls."""
    if kind in _ITEMS_WITHOUT_CALLS:
        return None
    return NotUnderstood(place, "an unknown type of item")
