"""OpenClaw and pi session files: JSON lines, a header and then entries that form a tree.

Written from the format's description in badlogic/pi-mono (packages/coding-agent/docs/session.md and compaction.md, versions 1
to 3 of sessions) and openclaw/openclaw (docs/reference/session-management-compaction.md), which keeps its transcripts in the
same form.

* A session is a run. Entries name their parent; one whose parent is not the tip of its branch begins another branch, which is a
  run of its own (`<session>~2`): the calls before the fork belong to the branch that made them. Version 1 has no ids: one branch.
* A fork (`parentSession`) copies entries of its parent file, ids and all; copies of what was read before are left out, and so
  are those of a second file of one session.
* Calls of a response that was aborted or failed were not made, unless they have a result.
* A compaction does not say whether the turn was tried again; what follows it tells.
* Calls that OpenClaw refused (`details.status` is `blocked`) were not made.
* Results are given as they stand, with their `details`: detection inside OpenClaw sees the same.
"""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from streams.transcripts.amounts import count, count_or_none, money, total
from streams.transcripts.content import arguments, error_message
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import Compacted, Copied, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record
from streams.transcripts.refused_calls import RefusedCalls
from streams.transcripts.seen import digest
from streams.transcripts.words import word

#: Entries that say nothing about calls.
_OTHER_ENTRIES = frozenset(
    {"branch_summary", "custom", "custom_message", "label", "leaf", "model_change", "session_info", "thinking_level_change"}
)
_CALL_BLOCKS = frozenset({"toolCall", "toolUse", "functionCall"})

#: Entries whose branch is remembered; a fork from further back than this continues the branch that is read.
_MAX_ENTRIES = 100_000


def recognises(value: Any) -> bool:
    """Whether a record is a session header or an entry with a message of an agent."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "session":
        return "id" in value and ("cwd" in value or "version" in value)
    if kind == "message":
        message = value.get("message")
        return isinstance(message, dict) and "role" in message and "sessionId" not in value and "session_id" not in value
    return kind == "compaction" and "firstKeptEntryId" in value


class _Session:
    def __init__(self, session_id: str, agent_id: str | None) -> None:
        self.runs = [RunRef(session_id, session_id, agent_id)]
        #: the branch of each remembered entry, and the last entry of each branch
        self.branches: OrderedDict[str, int] = OrderedDict()
        self.tips: dict[int, str] = {}
        self.current = 0

    def branch_of(self, entry: dict[str, Any]) -> int:
        """Return the branch that an entry belongs to, and make it the tip of that branch."""
        entry_id, parent = entry.get("id"), entry.get("parentId")
        if not isinstance(entry_id, str):
            return self.current
        if entry_id in self.branches:  # a copy
            return self.branches[entry_id]
        branch = self.branches.get(parent, self.current) if isinstance(parent, str) else self.current
        tip = self.tips.get(branch)
        fork = tip is not None and parent != tip and (parent is None or parent in self.branches)
        if fork and "parentId" in entry:
            first = self.runs[0]
            branch = len(self.runs)
            self.runs.append(RunRef(f"{first.run_id}~{branch + 1}", first.session_id, first.agent_id, first.run_id))
        self.branches[entry_id] = self.current = branch
        self.tips[branch] = entry_id
        if len(self.branches) > _MAX_ENTRIES:
            self.branches.popitem(last=False)
        return branch


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._agent_id = _agent_of(context.file)
        self._calls = OpenCalls()
        self._refused = RefusedCalls()
        self._session = _Session(context.run_id, self._agent_id)
        #: entries of this session may stand in another file too
        self._may_copy = False
        #: calls of responses that broke off, by run and id
        self._dropped: OrderedDict[tuple[str, str], tuple[dict[str, Any], Place, int | None]] = OrderedDict()

    def read(self, record: Record) -> Iterator[Item]:
        place = self._context.place(record.line)
        entry = record.value
        kind = word(entry.get("type")) if isinstance(entry, dict) else ""
        if kind == "session":
            session_id = entry.get("id")
            named = session_id if isinstance(session_id, str) and session_id else self._context.run_id
            self._session = _Session(named, self._agent_id)
            mine = self._context.seen.belongs_to(self._context.file, "openclaw session", named)
            self._may_copy = not mine or isinstance(entry.get("parentSession"), str)
            return
        if kind not in ("message", "compaction") and kind not in _OTHER_ENTRIES:
            yield NotUnderstood(place, "not an entry of a session" if not kind else "an unknown type of entry")
            return
        run = self._session.runs[self._session.branch_of(entry)]
        if kind in _OTHER_ENTRIES:
            return
        copied = self._is_copy(entry)
        items = self._compaction(entry, run, place) if kind == "compaction" else self._message(entry, run, place)
        if copied:
            for _ in items:  # calls that wait for their result are remembered
                pass
            yield Copied(place)
        else:
            for item in items:
                yield from self._refused.take(item)

    def finish(self) -> Iterator[Item]:
        yield from self._refused.finish()

    def _is_copy(self, entry: dict[str, Any]) -> bool:
        new = self._context.seen.add("openclaw", digest(entry))  # ids have eight digits only
        return self._may_copy and not new

    def _compaction(self, entry: dict[str, Any], run: RunRef, place: Place) -> Iterator[Item]:
        details = entry.get("details")
        after = details.get("tokensAfter") if isinstance(details, dict) else None
        yield Compacted(
            run,
            place,
            milliseconds(entry.get("timestamp")),
            tokens_before=count_or_none(entry.get("tokensBefore")),
            tokens_after=count_or_none(after if after is not None else entry.get("tokensAfter")),
        )

    def _message(self, entry: dict[str, Any], run: RunRef, place: Place) -> Iterator[Item]:
        message = entry.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(role, str):
            yield NotUnderstood(place, "a message without a role")
            return
        time = milliseconds(entry.get("timestamp")) or milliseconds(message.get("timestamp"))
        if role == "user":
            yield PromptGiven(run, place, time)
        elif role == "assistant":
            yield from self._response(message, run, place, time)
        elif role == "toolResult":
            yield from self._result(message, run, place, time)
        # All other roles are notes of the program, or commands that the person ran.

    def _response(self, message: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        usage = message.get("usage")
        if isinstance(usage, dict):
            tokens = total(usage, "input", "output", "cacheRead", "cacheWrite") or count(usage.get("totalTokens"))
            cost = usage.get("cost")
            spent = money(cost.get("total")) if isinstance(cost, dict) else None
            if tokens or spent:
                yield Spent(run, place, time, tokens, spent)
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict) or word(block.get("type")) not in _CALL_BLOCKS:
                continue
            call_id = block.get("id")
            if word(message.get("stopReason")) in ("aborted", "error") and isinstance(call_id, str):
                self._dropped[run.run_id, call_id] = (block, place, time)
                if len(self._dropped) > _MAX_DROPPED:
                    self._dropped.popitem(last=False)
            else:
                yield self._start(block, run, place, time)

    def _start(self, block: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Item:
        given = block.get("arguments", block.get("input"))
        return self._calls.start(run, place, time, call_id=block.get("id"), tool=block.get("name"), params=arguments(given))

    def _result(self, message: dict[str, Any], run: RunRef, place: Place, time: int | None) -> Iterator[Item]:
        call_id = message.get("toolCallId", message.get("toolUseId"))
        if isinstance(call_id, str) and (dropped := self._dropped.pop((run.run_id, call_id), None)) is not None:
            yield self._start(dropped[0], run, dropped[1], dropped[2])
        content = message.get("content")
        outcome: dict[str, Any] = {}
        if message.get("isError") is True:
            outcome["error"] = error_message(content)
        elif "details" in message:
            outcome["result"] = {"content": content, "details": message["details"]}
        else:
            outcome["result"] = {"content": content}
        yield self._calls.finish(run, place, time, call_id=call_id, tool=message.get("toolName"), **outcome)


_MAX_DROPPED = 1000


def _agent_of(file: str) -> str | None:
    """Return the agent whose folder a file lies in: OpenClaw keeps sessions in `agents/<id>/sessions/`."""
    parts = PurePath(file).parts
    return parts[-3] if len(parts) >= 4 and parts[-2] == "sessions" and parts[-4] == "agents" else None


FORMAT = Format(name="openclaw", title="OpenClaw and pi sessions", recognises=recognises, reader=_Reader)
