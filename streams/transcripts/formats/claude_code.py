"""Claude Code session files, and the stream that `claude -p --output-format stream-json` prints: JSON lines.

Sessions of the web, which come as one document with `loglines`, are read too.

Anthropic documents the messages (the Messages API: `tool_use` and `tool_result` blocks) and the stream (Agent SDK,
SDKMessage). The session files have no public definition; this follows public readers of them: simonw/claude-code-transcripts,
daaain/claude-code-log, ryoppippi/ccusage (what is repeated on resuming, sidechains), and the article on continued sessions at
blog.fsck.com (2026-02-22).

* A session is a run. A sub-agent is a run of its own below it: `<session>/<agent id>`; older files mark its records only as a
  sidechain, whose records are found by their parents.
* A response is written block by block, each time with its usage so far: only what is new is counted.
* Resumed and forked sessions repeat records, with the same `uuid` or with `forkedFrom`: copies are left out.
* `compact_boundary` is a compaction; the summary that follows is no prompt.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from streams.transcripts.amounts import count_or_none, money, total
from streams.transcripts.content import error_message, tool_result
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import Compacted, Copied, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record
from streams.transcripts.seen import digest
from streams.transcripts.tool_blocks import tool_blocks
from streams.transcripts.words import word

_MESSAGES = frozenset({"assistant", "user"})

#: Records that say nothing about calls.
_OTHER_RECORDS = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attachment",
        "attribution-snapshot",
        "auth_status",
        "content-replacement",
        "control_request",
        "control_response",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "prompt_suggestion",
        "queue-operation",
        "rate_limit_event",
        "result",
        "saved_hook_context",
        "stream_event",
        "summary",
        "system",
        "tag",
        "task-summary",
        "tool_progress",
        "tool_use_summary",
        "worktree-state",
    }
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UNKNOWN_TOOL = "No such tool available:"

_MAX_CHAINED = 100_000
_MAX_RESPONSES = 1000


def recognises(value: Any) -> bool:
    """Whether a record is a message or a note of a session."""
    if isinstance(value, dict) and isinstance(value.get("loglines"), list):
        return True
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    if kind in _MESSAGES:
        return isinstance(value.get("message"), dict) and ("sessionId" in value or "session_id" in value or "uuid" in value)
    if kind == "system":
        return "subtype" in value
    return kind in ("file-history-snapshot", "queue-operation", "permission-mode") or (kind == "summary" and "leafUuid" in value)


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()
        #: run of each sidechain record, so that the records below it are found
        self._chains: OrderedDict[str, RunRef] = OrderedDict()
        #: tokens and money counted so far of each response
        self._counted: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        self._session_id = context.run_id

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        entry = record.value
        if isinstance(entry, dict) and isinstance(lines := entry.get("loglines"), list):
            for line in lines:
                yield from self.read(record._replace(value=line))
            return
        kind = word(entry.get("type")) if isinstance(entry, dict) else ""
        if kind in _MESSAGES:
            yield from self._message(entry, place)
        elif kind == "system":
            if entry.get("subtype") == "compact_boundary":
                yield self._compaction(entry, place)
        elif kind not in _OTHER_RECORDS:
            yield NotUnderstood(place, "not a record of a session" if not kind else "an unknown type of record")

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _compaction(self, entry: dict[str, Any], place: Place) -> Item:
        run = self._run(entry)
        if self._is_copy(entry):
            return Copied(place)
        given = entry.get("compactMetadata", entry.get("compact_metadata"))
        facts = given if isinstance(given, dict) else {}
        trigger = facts.get("trigger")
        return Compacted(
            run,
            place,
            milliseconds(entry.get("timestamp")),
            trigger=trigger if isinstance(trigger, str) else None,
            tokens_before=count_or_none(facts.get("preTokens", facts.get("pre_tokens"))),
            tokens_after=count_or_none(facts.get("postTokens", facts.get("post_tokens"))),
        )

    def _message(self, entry: dict[str, Any], place: Place) -> Iterator[Item]:
        message = entry.get("message")
        if not isinstance(message, dict):
            yield NotUnderstood(place, "a message without content")
            return
        run = self._run(entry)
        copied = self._is_copy(entry)
        time = milliseconds(entry.get("timestamp"))
        spent = self._spent(entry, message, run, place, time)
        if spent is not None and not copied:
            yield spent
        content = message.get("content")
        blocks = list(tool_blocks(content))
        for block in blocks:
            if block.kind == "use":
                item: Item = self._calls.start(run, place, time, call_id=block.call_id, tool=block.tool, params=block.content)
            else:
                item = self._result(run, place, time, call_id=block.call_id, content=block.content, is_error=block.is_error)
            if not copied:
                yield item
        if copied:
            yield Copied(place)
        elif not blocks and entry["type"] == "user" and not entry.get("isMeta") and not entry.get("isCompactSummary"):
            yield PromptGiven(run, place, time)

    def _result(self, run: RunRef, place: Place, time: int | None, *, call_id: Any, content: Any, is_error: bool) -> Item:
        if not is_error:
            return self._calls.finish(run, place, time, call_id=call_id, result=tool_result(content))
        text = error_message(content)
        _, found, missing = text.partition(_UNKNOWN_TOOL)
        name = missing.replace("</tool_use_error>", "").strip().split()[:1] if found else []
        unknown_tool = name[0].lower()[:256] if name else None
        return self._calls.finish(run, place, time, call_id=call_id, error=text, unknown_tool=unknown_tool)

    def _run(self, entry: dict[str, Any]) -> RunRef:
        given = entry.get("sessionId", entry.get("session_id"))
        session = self._session_id = given if isinstance(given, str) and given else self._session_id
        below = entry.get("agentId") or entry.get("parent_tool_use_id")
        if isinstance(below, str):
            return RunRef(f"{session}/{below}", session, None, session)
        if entry.get("isSidechain") is not True:
            return RunRef(session, session)
        uuid, parent = entry.get("uuid"), entry.get("parentUuid")
        run = self._chains.get(parent) if isinstance(parent, str) else None
        if run is None:
            run = RunRef(f"{session}/sidechain-{parent or uuid}", session, None, session)
        if isinstance(uuid, str):
            self._chains[uuid] = run
            if len(self._chains) > _MAX_CHAINED:
                self._chains.popitem(last=False)
        return run

    def _is_copy(self, entry: dict[str, Any]) -> bool:
        forked = entry.get("forkedFrom")
        original = forked.get("messageUuid") if isinstance(forked, dict) else None
        content = digest(entry.get("message", entry.get("compactMetadata")))
        new = True
        for uuid in {word(entry.get("uuid")), word(original)}:
            if _UUID.fullmatch(uuid):  # any other id may be used again by whoever wrote the file
                new = self._context.seen.add("claude", uuid, content) and new
        return not new

    def _spent(self, entry: dict[str, Any], message: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Spent | None:
        usage = message.get("usage")
        tokens = total(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        cost = money(entry.get("costUSD"))
        if not tokens and not cost:
            return None
        response = message.get("id")
        if not isinstance(response, str):
            return Spent(run, place, time, tokens, cost)
        before, paid = self._counted.pop((run.run_id, response), (0, 0.0))
        self._counted[run.run_id, response] = (max(tokens, before), max(cost or 0.0, paid))
        if len(self._counted) > _MAX_RESPONSES:
            self._counted.popitem(last=False)
        new_cost = None if cost is None else max(0.0, cost - paid)
        return Spent(run, place, time, tokens - before, new_cost) if tokens > before or new_cost else None


FORMAT = Format(name="claude-code", title="Claude Code sessions", recognises=recognises, reader=_Reader)
