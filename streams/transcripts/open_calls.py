"""Calls that have been made and not answered yet, so that an answer finds its call."""

from collections import OrderedDict, deque
from typing import Any

from schemas.fingerprints import MISSING, args_hash, is_poll, normalize_tool
from streams.transcripts.items import CallFinished, CallStarted, NotUnderstood, Place, RunRef

#: Longest tool name and call id that an event may have (`schemas.events`).
_MAX_NAME = 256

#: Unanswered calls remembered, over all runs of a file; the oldest are forgotten first. Answers come soon or never.
_MAX_OPEN = 10_000


class OpenCalls:
    """The unanswered calls of one file.

    Ids are neither unique nor always there: an answer belongs to the earliest unanswered call of its run with its id, and an
    answer without an id to the earliest unanswered one of its tool.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], deque[CallStarted]] = OrderedDict()

    def start(
        self, run: RunRef, place: Place, time: int | None, *, call_id: Any, tool: Any, params: Any
    ) -> CallStarted | NotUnderstood:
        """Return the item of a call and remember it."""
        if not isinstance(tool, str) or not tool.strip():
            return NotUnderstood(place, "a tool call without the name of its tool")
        try:
            hashed = args_hash(params)
        except (TypeError, ValueError) as error:
            return NotUnderstood(place, f"arguments that cannot be hashed: {error}")
        name = _within(tool)
        identity = _within(call_id) if isinstance(call_id, str) and call_id else None
        call = CallStarted(run, place, time, identity, name, params, hashed, is_poll(normalize_tool(name), params))
        key = (run.run_id, _key(identity, name))
        self._open.setdefault(key, deque()).append(call)
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)
        return call

    def finish(
        self,
        run: RunRef,
        place: Place,
        time: int | None,
        *,
        call_id: Any = None,
        tool: Any = None,
        result: Any = MISSING,
        error: Any = None,
        unknown_tool: str | None = None,
    ) -> CallFinished | NotUnderstood:
        """Return the item of an answer; one to a call that is not in the log cannot be judged."""
        identity = _within(call_id) if isinstance(call_id, str) and call_id else None
        key = (run.run_id, _key(identity, _within(tool) if isinstance(tool, str) else ""))
        calls = self._open.get(key)
        if not calls:
            return NotUnderstood(place, "the outcome of a call that is not in the log")
        call = calls.popleft()
        if not calls:
            del self._open[key]
        return CallFinished(
            call.run,
            place,
            time,
            call.call_id,
            call.tool,
            call.params,
            call.args_hash,
            call.poll,
            result=result,
            error=error,
            unknown_tool=unknown_tool,
            is_error=True if error is not None else None,
        )


def _key(call_id: str | None, tool: str) -> str:
    return f"id {call_id}" if call_id is not None else f"tool {tool}"


def _within(text: str) -> str:
    if len(text) <= _MAX_NAME:
        return text
    return f"{text[: _MAX_NAME - 17]}~{args_hash(text)[:16]}"
