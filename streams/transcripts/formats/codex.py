"""Codex CLI rollout files: JSON lines with `timestamp`, `type` and `payload`; and the stream of `codex exec --json`.

Written from openai/codex (codex-rs/protocol/src/protocol.rs: RolloutLine, RolloutItem, SessionMeta, TokenUsageInfo;
codex-rs/protocol/src/models.rs: ResponseItem; codex-rs/rollout/src/policy.rs: what is kept). Files of mid-2025, with bare items
below a header, are read too.

* A thread is a run. A sub-agent has a file of its own, whose header names its parent thread.
* Calls are `response_item` records; events about the same calls say nothing more and are passed over.
* A forked thread, and a sub-agent that was given its parent's history, begin with copies: a call that another thread has made
  already is left out. So are those of a second file of one thread. A header of another thread inside a copy does not begin a
  new run.
* `compacted` is a compaction; token counts are the growth of the thread's totals.
"""

from collections.abc import Iterator
from typing import Any

from schemas.fingerprints import args_hash
from streams.transcripts.amounts import count, total
from streams.transcripts.codex_output import stable_result
from streams.transcripts.codex_stream import CodexStream, is_stream_event
from streams.transcripts.content import error_message
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import CallStarted, Compacted, Copied, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record
from streams.transcripts.responses_items import call_items, is_call, is_item, is_outcome, unknown_item
from streams.transcripts.words import word

_OTHER_RECORDS = frozenset(
    {
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "realtime_item",
        "retained_context",
        "security_risk_score",
        "token_usage_record",
        "turn_context",
        "world_state",
    }
)
_RECORDS = _OTHER_RECORDS | {"session_meta", "response_item", "event_msg", "compacted"}
_PROMPTS = frozenset({"task_started", "turn_started", "user_message"})

#: Shorter ids are counters of model servers, which say nothing about what is a copy.
_MIN_UNIQUE_ID = 16


def recognises(value: Any) -> bool:
    """Whether a record has the envelope of a rollout line, or is the header of an old rollout."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("payload"), dict) and word(value.get("type")) in _RECORDS:
        return True
    if word(value.get("type")) == "thread.started":
        return "thread_id" in value
    return "type" not in value and {"id", "timestamp", "instructions"} <= value.keys()


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        self._run = RunRef(context.run_id, context.run_id)
        self._origins: set[str] = set()
        self._named = False
        self._copied_ids: set[str] = set()
        self._tokens = 0
        self._stream = CodexStream(self._calls)
        #: calls of this file may stand in another one too
        self._may_copy = False
        #: nothing of the thread's own has come yet
        self._copying = False

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        line = record.value
        if not isinstance(line, dict):
            yield NotUnderstood(place, "not a line of a rollout")
            return
        kind, payload, time = word(line.get("type")), line.get("payload"), milliseconds(line.get("timestamp"))
        if not isinstance(payload, dict):
            yield from self._bare(line, place, time)
        elif kind == "session_meta":
            self._meta(payload)
        elif kind == "response_item":
            yield from self._item(payload, place, time)
        elif kind == "event_msg":
            yield from self._event(payload, place, time)
        elif kind == "compacted":
            yield Compacted(self._run, place, time)
        elif kind not in _OTHER_RECORDS:
            yield NotUnderstood(place, "an unknown type of record")

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _bare(self, line: dict[str, Any], place: Place, time: int | None) -> Iterator[Item]:
        if "record_type" in line:
            return
        if is_stream_event(line):
            if word(line.get("type")) == "thread.started":
                self._meta({"id": line.get("thread_id")})
            yield from self._stream.read(line, self._run, place)
            return
        if "type" not in line and "instructions" in line:
            self._meta(line)
        elif is_item(line):
            yield from self._item(line, place, time)
        else:
            yield NotUnderstood(place, "not a line of a rollout")

    def _meta(self, payload: dict[str, Any]) -> None:
        thread = payload.get("id", payload.get("session_id"))
        if not isinstance(thread, str) or not thread:
            return
        if self._named and (thread in self._origins or thread == self._run.run_id):
            return  # the header of what was copied
        parent = _parent(payload)
        origins = {origin for origin in (payload.get("forked_from_id"), parent) if isinstance(origin, str)}
        session = payload.get("session_id")
        self._run = RunRef(thread, session if isinstance(session, str) and session else thread, None, parent)
        self._may_copy = bool(origins) or not self._context.seen.belongs_to(self._context.file, "codex thread", thread)
        self._origins, self._named, self._tokens, self._copying = origins, True, 0, self._may_copy

    def _item(self, item: dict[str, Any], place: Place, time: int | None) -> Iterator[Item]:
        kind = word(item.get("type"))
        if is_call(kind):
            yield from self._call(item, place, time)
        elif is_outcome(kind):
            if word(item.get("call_id")) in self._copied_ids:
                yield Copied(place)
            else:
                yield self._outcome(item, place, time)
        elif (unknown := unknown_item(kind, place)) is not None:
            yield unknown

    def _call(self, item: dict[str, Any], place: Place, time: int | None) -> Iterator[Item]:
        items = list(call_items(item, self._run, place, time, self._calls))
        call = items[0]
        if isinstance(call, CallStarted) and call.call_id is not None and len(call.call_id) >= _MIN_UNIQUE_ID:
            key = (call.call_id, call.tool, call.args_hash or args_hash(call.params))
            mine = self._context.seen.belongs_to((self._context.file, self._run.run_id), "codex", *key)
            if self._may_copy and not mine:
                self._copied_ids.add(call.call_id)
                yield Copied(place)
                return
            self._copied_ids.discard(call.call_id)
        self._copying = False
        yield from items

    def _outcome(self, item: dict[str, Any], place: Place, time: int | None) -> Item:
        result, failed = stable_result(item.get("output", item.get("tools")))
        if failed or item.get("status") == "failed":
            text = error_message(result["content"] if isinstance(result, dict) else result)
            return self._calls.finish(self._run, place, time, call_id=item.get("call_id"), error=text)
        return self._calls.finish(self._run, place, time, call_id=item.get("call_id"), result=result)

    def _event(self, payload: dict[str, Any], place: Place, time: int | None) -> Iterator[Item]:
        kind = word(payload.get("type"))
        if kind in _PROMPTS:
            yield PromptGiven(self._run, place, time)
        elif kind == "token_count" and isinstance(info := payload.get("info"), dict):
            tokens = self._new_tokens(info)
            if tokens and not self._copying:  # what the copied calls took was counted where they were made
                yield Spent(self._run, place, time, tokens)

    def _new_tokens(self, info: dict[str, Any]) -> int:
        everything = info.get("total_token_usage")
        if not isinstance(everything, dict):
            return _tokens(info.get("last_token_usage"))
        now = _tokens(everything)
        # Totals are said again and again; they fall when a thread goes on with a smaller history.
        new = now - self._tokens if now >= self._tokens else _tokens(info.get("last_token_usage"))
        self._tokens = now
        return new


def _tokens(usage: Any) -> int:
    if not isinstance(usage, dict):
        return 0
    return count(usage.get("total_tokens")) or total(usage, "input_tokens", "output_tokens")


def _parent(payload: dict[str, Any]) -> str | None:
    parent = payload.get("parent_thread_id")
    source = payload.get("source")
    if parent is None and isinstance(source, dict):  # {"subagent": {"thread_spawn": {"parent_thread_id": ...}}}
        for name in ("subagent", "sub_agent"):
            inner = source.get(name)
            spawn = inner.get("thread_spawn") if isinstance(inner, dict) else None
            if isinstance(spawn, dict):
                parent = spawn.get("parent_thread_id")
    return parent if isinstance(parent, str) else None


FORMAT = Format(name="codex", title="Codex CLI rollouts", recognises=recognises, reader=_Reader)
