"""The events that a gateway would have published for the items of a log."""

from typing import Any

from schemas.events import CompactionCompleted, RunEnded, RunEvent, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.fingerprints import MISSING, args_hash, is_poll, outcome_fingerprint
from streams.transcripts.items import (
    CallBlocked,
    CallFinished,
    CallStarted,
    Compacted,
    PromptGiven,
    RunFinished,
    RunItem,
    Spent,
)

#: Longest texts that an event may have (`schemas.events`).
_MAX_LABEL = 1024


def event_of(item: RunItem) -> RunEvent | None:
    """Return the event of an item with all of its content, None for prompts and usage, of which detection knows nothing.

    The models are made without validation: readers keep to their limits, and those of run ids are kept here.
    """
    if isinstance(item, PromptGiven | Spent):
        return None
    shared = _run_fields(item)
    match item:
        case Compacted():
            optional = {"trigger": item.trigger, "tokens_before": item.tokens_before, "tokens_after": item.tokens_after}
            shared |= {name: value for name, value in optional.items() if value is not None}
            return CompactionCompleted.model_construct(**shared, will_retry=item.will_retry is True)
        case RunFinished():
            if item.status is not None:
                shared["status"] = item.status[:_MAX_LABEL]
            return RunEnded.model_construct(**shared)
        case CallStarted():
            return ToolCallStarted.model_construct(**shared, **_call_fields(item))
        case CallBlocked():
            return ToolCallBlocked.model_construct(**shared, **_call_fields(item), reason=item.reason)
        case CallFinished():
            return ToolCallFinished.model_construct(**shared, **_call_fields(item), **_outcome_fields(item))


def without_content(item: RunItem) -> RunEvent | None:
    """Return the event of an item with hashes in place of content, and the few facts that a hash hides."""
    event = event_of(item)
    if not isinstance(event, ToolCallStarted | ToolCallFinished | ToolCallBlocked):
        return event
    fields = {name: getattr(event, name) for name in event.model_fields_set - {"params", "result", "error"}}
    if event.args_hash is None:
        fields["args_hash"] = args_hash(event.params)
    if event.has_params:
        fields["poll"] = is_poll(event.tool, event.params)
    if isinstance(event, ToolCallFinished) and event.outcome_hash is None:
        found = outcome_fingerprint(
            event.tool, event.params, result=event.result if event.has_result else MISSING, error=event.error
        )
        if found.outcome_hash is not None:
            fields["outcome_hash"] = found.outcome_hash
            if (unknown_tool := event.unknown_tool or found.unknown_tool) is not None:
                fields["unknown_tool"] = unknown_tool
        if found.is_error:
            fields["is_error"] = True
    if not fields.get("poll"):
        fields.pop("poll", None)
    return type(event).model_construct(**fields)


def _run_fields(item: RunItem) -> dict[str, Any]:
    run = item.run
    fields: dict[str, Any] = {"run_id": run.run_id[:_MAX_LABEL]}
    for name in ("session_id", "agent_id", "parent_run_id"):
        if (value := getattr(run, name)) is not None:
            fields[name] = value[:_MAX_LABEL]
    return fields


def _call_fields(item: CallStarted | CallFinished | CallBlocked) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool": item.tool}
    for name in ("call_id", "args_hash", "poll"):
        if (value := getattr(item, name)) is not None:
            fields[name] = value
    if item.params is not MISSING:
        fields["params"] = item.params
    return fields


def _outcome_fields(item: CallFinished) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if item.result is not MISSING:
        fields["result"] = item.result
    for name in ("error", "outcome_hash", "unknown_tool", "is_error"):
        if (value := getattr(item, name)) is not None:
            fields[name] = value
    return fields
