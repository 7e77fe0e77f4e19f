"""Records of the input topics, and what an audit makes of them: the same as a worker, a few times faster.

Most events are structured ones with hashes in place of content. They are read here without the general models: JSON by the same
parser, then types and bounds by msgspec. Whatever is not plainly such an event goes the worker's own way, which has the last word
on what is invalid; a property test holds the two together.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import msgspec
import orjson

from schemas.cloudevents import MAX_SEQUENCE, InvalidEventError, time_ms
from schemas.events import CompactionCompleted, RunEnded, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.fingerprints import normalize_tool
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.detection.facts import OUTCOME_DIGEST_BYTES, Facts, Kind, RunPartition
from streams.detection.history import SignatureKey
from streams.processor.intake import read_record

_HASH = re.compile(r"[0-9a-f]{32}", re.ASCII)


class InputRecord(NamedTuple):
    """One record of an input topic; `timestamp` is the record's, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class Input(NamedTuple):
    """An event that a worker applied: the run, its facts, and the record's timestamp."""

    run_id: str
    facts: Facts
    timestamp: int


class InputReader:
    """Reads the records of one partition of both input topics as its worker did.

    `dead_letters` and `misrouted` count what came to nothing there.
    """

    def __init__(self, *, settings: Settings, partition: int, partitions: int) -> None:
        self.dead_letters = 0
        self.misrouted = 0
        self._settings = settings
        self._home = RunPartition(settings.topics.tool_calls, partition)
        self._tool_calls = settings.topics.tool_calls
        self._partitions = partitions
        self._max_bytes = settings.max_event_bytes

    def read(self, record: InputRecord) -> Input | None:
        """Return the event of a record; None for dead letters and events of another partition."""
        found = self._plainly(record)
        if found is None:
            try:
                found = read_record(cast(Any, record), settings=self._settings)  # a Record that is not written to
            except InvalidEventError:
                self.dead_letters += 1
                return None
        run_id, facts = found
        if partition_of(run_id, self._partitions) != record.partition:
            self.misrouted += 1
            return None
        return Input(run_id, facts, record.timestamp)

    def _plainly(self, record: InputRecord) -> tuple[str, Facts] | None:
        value = record.value
        if not value or len(value) > self._max_bytes or (record.headers and any(_speaks(name) for name, _ in record.headers)):
            return None
        try:
            body = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(body, dict):
            return None
        shape = (_TOOL_CALLS if record.topic == self._tool_calls else _COMPACTIONS).get(str(body.get("type")))
        if shape is None or "data_base64" in body:
            return None
        try:
            event: _Event = msgspec.convert(body, shape)
            time = record.timestamp if event.time is None else time_ms(event.time)
            facts = self._facts(event, record, max(time, 0) if event.time is None else time)
        except (ValueError, OverflowError):  # msgspec.ValidationError is one
            return None
        run_id: str = event.data.run_id
        if facts is None or record.key is None or record.key != run_id.encode():
            return None
        return run_id, facts

    def _facts(self, event: "_Event", record: InputRecord, time: int) -> Facts | None:
        data: Any = event.data
        sequence = None
        if (text := event.sequence) is not None:
            if not (text.isascii() and text.isdigit() and len(text) <= 64):
                return None
            sequence = int(text)
            if sequence > MAX_SEQUENCE:
                return None
        kind = event.kind
        if kind == "compaction" or kind == "ended":
            arms = kind == "compaction" and data.will_retry
            return Facts(kind, self._home, record.offset, time, sequence, data.session_id, data.agent_id, arms=arms)
        if data.params is not msgspec.UNSET or not _HASH.fullmatch(data.args_hash):
            return None
        outcome = unknown_tool = None
        if kind == "finished":
            # Without a hash the outcome is worked out from content, or there is none: not so plain.
            if data.outcome_hash is None or not _HASH.fullmatch(data.outcome_hash):
                return None
            outcome = bytes.fromhex(data.outcome_hash)[:OUTCOME_DIGEST_BYTES]
            unknown_tool = data.unknown_tool.lower() if data.unknown_tool else None
        key = SignatureKey(normalize_tool(data.tool), bytes.fromhex(data.args_hash))
        return Facts(
            kind,
            self._home,
            record.offset,
            time,
            sequence,
            data.session_id,
            data.agent_id,
            data.call_id,
            key,
            bool(data.poll),
            outcome,
            unknown_tool,
        )


def _speaks(header: str) -> bool:
    """Whether a header says how the value is to be read."""
    lower = header.lower()
    return lower == "content-type" or lower.startswith("ce_")


# The bounds are those of schemas.cloudevents and schemas.events.
_Attribute = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Label = Annotated[str, msgspec.Meta(max_length=1024)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_CallId = Annotated[str, msgspec.Meta(max_length=256)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Run(msgspec.Struct):
    run_id: _Attribute
    session_id: _Label | None = None
    agent_id: _Label | None = None
    parent_run_id: _Label | None = None
    round: int | _Label | None = None


class _Call(_Run, kw_only=True):
    tool: _Name
    args_hash: str
    call_id: _CallId | None = None
    params: Any = msgspec.UNSET
    poll: bool | None = None
    preview: str | None = None


class _Finished(_Call, kw_only=True):
    outcome_hash: str | None = None
    unknown_tool: _Name | None = None
    is_error: bool | None = None


class _Blocked(_Call, kw_only=True):
    reason: Literal["loop", "policy", "approval", "other"]
    decision_id: _Label | None = None


class _Compaction(_Run, kw_only=True):
    will_retry: bool
    trigger: _Label | None = None
    tokens_before: _Count | None = None
    tokens_after: _Count | None = None


class _Ended(_Run, kw_only=True):
    status: _Label | None = None


class _Event(msgspec.Struct):
    specversion: Literal["1.0"]
    id: _Attribute
    source: _Attribute
    data: Any
    time: str | None = None
    sequence: str | None = None

    kind: ClassVar[Kind]


def _shape(kind: Kind, data: type[_Run]) -> type[_Event]:
    made = msgspec.defstruct(f"_{kind.title()}Event", [("data", data)], bases=(_Event,), namespace={"kind": kind})
    return cast(type[_Event], made)


_TOOL_CALLS = {
    ToolCallStarted.event_type(): _shape("started", _Call),
    ToolCallFinished.event_type(): _shape("finished", _Finished),
    ToolCallBlocked.event_type(): _shape("blocked", _Blocked),
    RunEnded.event_type(): _shape("ended", _Ended),
}
_COMPACTIONS = {CompactionCompleted.event_type(): _shape("compaction", _Compaction)}
