"""Writes the events of a gateway: hash-only by default, with ids, sequence and time."""

import time
import uuid
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from schemas import cloudevents, json_text
from schemas.events import (
    CompactionCompleted,
    RunEnded,
    RunEvent,
    ToolCallBlocked,
    ToolCallFinished,
    ToolCallStarted,
)
from schemas.fingerprints import MISSING, OutcomeFingerprint, outcome_fingerprint
from schemas.topics import Topics
from streams.gateway.call_identity import FingerprintedCall, call_name, label
from streams.gateway.json_form import NoJsonFormError, error_form, json_form
from streams.gateway.sequence_clock import SequenceClock

Content = Literal["hash", "preview", "full"]

#: Characters of a preview: a few lines, enough to recognise a call in a timeline.
PREVIEW_LENGTH = 500

_TYPES: dict[type[RunEvent], str] = {
    model: model.event_type() for model in (ToolCallStarted, ToolCallFinished, ToolCallBlocked, CompactionCompleted, RunEnded)
}
_LABELS = frozenset(("session_id", "agent_id", "parent_run_id", "trigger", "status"))
_FACTS = _LABELS | {"round", "call_id", "decision_id", "reason", "will_retry", "tokens_before", "tokens_after", "lost_events"}


class WrittenEvent(NamedTuple):
    """An event ready for its topic; `value` is a structured CloudEvent."""

    topic: str
    run_id: str
    value: bytes


class Outcome(NamedTuple):
    """What a call came to: a result, an error (an exception or any JSON value), or neither when it is not known."""

    result: Any = MISSING
    error: Any = None


class EventWriter:
    """Makes events of what a gateway reports.

    `content` says what leaves the gateway: `hash` the fingerprints alone, `preview` also the first characters as text, `full` the
    content itself. An event whose content would make it larger than `max_event_bytes` is sent with its hashes instead. An outcome
    that cannot be fingerprinted is sent as not known, and `on_unknown_outcome` is told why. Raises `ValueError` for what does not
    fit the event models.
    """

    def __init__(
        self,
        *,
        topics: Topics,
        source: str,
        content: Content,
        max_event_bytes: int,
        clock: SequenceClock,
        on_unknown_outcome: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._tool_calls = topics.tool_calls
        self._compactions = topics.compactions
        self._source = source
        self._content = content
        self._max_event_bytes = max_event_bytes
        self._clock = clock
        self._on_unknown_outcome = on_unknown_outcome
        # Makes ids of this process its own; the sequence makes them unique within it.
        self._id_prefix = uuid.uuid4().hex[:12]

    def started(self, run_id: str, call: FingerprintedCall, facts: dict[str, Any]) -> WrittenEvent:
        """Write that a call goes ahead; `facts` are further fields of the event."""
        return self._call_event(ToolCallStarted, run_id, call, facts, None)

    def blocked(self, run_id: str, call: FingerprintedCall, facts: dict[str, Any]) -> WrittenEvent:
        """Write that a call was refused."""
        return self._call_event(ToolCallBlocked, run_id, call, facts, None)

    def finished(self, run_id: str, call: FingerprintedCall, outcome: Outcome, facts: dict[str, Any]) -> WrittenEvent:
        """Write how a call ended."""
        return self._call_event(ToolCallFinished, run_id, call, facts, outcome)

    def compaction(self, run_id: str, facts: dict[str, Any]) -> WrittenEvent:
        """Write that the context was compacted."""
        return self._event(CompactionCompleted, self._compactions, run_id, self._checked(CompactionCompleted, run_id, facts))

    def ended(self, run_id: str, facts: dict[str, Any]) -> WrittenEvent:
        """Write that the run is over."""
        return self._event(RunEnded, self._tool_calls, run_id, self._checked(RunEnded, run_id, facts))

    def _call_event(
        self, model: type[RunEvent], run_id: str, call: FingerprintedCall, facts: dict[str, Any], outcome: Outcome | None
    ) -> WrittenEvent:
        data = self._data(run_id, facts)
        data["tool"] = call.tool
        hashes: dict[str, Any] = {"args_hash": call.args_hash}
        if call.poll:
            hashes["poll"] = True
        content: dict[str, Any] = {"params": call.params}
        if outcome is not None:
            self._add_outcome(call, outcome, hashes, content)
        if self._content == "full" and (event := self._full_event(model, run_id, {**data, **content})) is not None:
            return event
        if self._content == "preview":
            hashes["preview"] = _preview(content)
        return self._event(model, self._tool_calls, run_id, {**data, **hashes})

    def _full_event(self, model: type[RunEvent], run_id: str, data: dict[str, Any]) -> WrittenEvent | None:
        """Return the event with its content, or None when that is too large or has parts without a JSON form."""
        try:
            event = self._event(model, self._tool_calls, run_id, data)
        except (TypeError, ValueError, RecursionError):
            return None
        return event if len(event.value) <= self._max_event_bytes else None

    def _add_outcome(self, call: FingerprintedCall, outcome: Outcome, hashes: dict[str, Any], content: dict[str, Any]) -> None:
        if outcome.error is not None:
            name, value = "error", outcome.error
            if isinstance(value, BaseException):
                value = error_form(value)
        elif outcome.result is not MISSING:
            name, value = "result", outcome.result
        else:
            return
        try:
            value, fingerprint = _fingerprint(call, name, value)
        except NoJsonFormError as error:
            self._on_unknown_outcome(str(error))
            return
        content[name] = value
        if fingerprint.outcome_hash is not None:
            hashes["outcome_hash"] = fingerprint.outcome_hash
        if fingerprint.unknown_tool is not None:
            hashes["unknown_tool"] = fingerprint.unknown_tool
        if fingerprint.is_error:
            hashes["is_error"] = True

    def _data(self, run_id: str, facts: dict[str, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {"run_id": run_id}
        for name, value in facts.items():
            if value is not None and name in _FACTS:  # whatever else is given, nothing but facts leaves the gateway
                data[name] = label(value) if name in _LABELS else value
        if not isinstance(data.get("round", 0), int):
            data["round"] = label(data["round"])
        if "call_id" in data:
            data["call_id"] = call_name(data["call_id"])
        return data

    def _checked(self, model: type[RunEvent], run_id: str, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the data of an event whose facts a gateway gives as numbers and flags, having checked them."""
        data = self._data(run_id, facts)
        model.model_validate(data)
        return data

    def _event(self, model: type[RunEvent], topic: str, run_id: str, data: dict[str, Any]) -> WrittenEvent:
        sequence = self._clock.next()
        value = cloudevents.structured(
            event_type=_TYPES[model],
            source=self._source,
            event_id=f"{self._id_prefix}-{sequence}",
            run_id=run_id,
            data=data,
            time=time.time_ns() // 1_000_000,
            sequence=sequence,
        )
        return WrittenEvent(topic, run_id, value)


def _fingerprint(call: FingerprintedCall, name: str, value: Any) -> tuple[Any, OutcomeFingerprint]:
    """Return a result or an error, in JSON form where it has to be, and its fingerprint; raises `NoJsonFormError`."""
    try:
        try:
            return value, outcome_fingerprint(call.tool, call.params, **{name: value})
        except TypeError:
            plain = json_form(value)
            return plain, outcome_fingerprint(call.tool, call.params, **{name: plain})
    except (TypeError, ValueError, RecursionError) as error:
        raise NoJsonFormError(str(error)) from None


def _preview(content: dict[str, Any]) -> str:
    shown = content.get("error", content.get("result", content["params"]))
    try:
        text = shown if isinstance(shown, str) else json_text.dumps(shown).decode()
    except (TypeError, ValueError, RecursionError):
        return ""
    text = text.encode(errors="replace").decode()  # half characters are no text
    return text if len(text) <= PREVIEW_LENGTH else f"{text[: PREVIEW_LENGTH - 1]}…"
