"""What the engine takes in: the facts of one event, with hashes in place of content."""

from typing import Literal, NamedTuple, final

from mypy_extensions import mypyc_attr

from schemas.cloudevents import MAX_TIME_MS, CloudEvent
from schemas.events import (
    CompactionCompleted,
    RunEnded,
    RunEvent,
    ToolCall,
    ToolCallBlocked,
    ToolCallFinished,
    ToolCallStarted,
)
from schemas.fingerprints import MISSING, OutcomeFingerprint, args_hash, is_poll, normalize_tool, outcome_fingerprint
from streams.detection.history import SignatureKey

Kind = Literal["started", "finished", "blocked", "compaction", "ended"]

#: Bytes of an outcome hash that a history keeps, see `history.Outcome`.
OUTCOME_DIGEST_BYTES = 8


class RunPartition(NamedTuple):
    """Where a run lives: the tool-calls topic and the partition number that it has in every topic."""

    topic: str
    number: int


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Facts:
    """One event as the engine sees it.

    `offset` is the record's in its own topic, `time` milliseconds since 1970 (the record's own where the event has none).
    `key` and `poll` are set for tool calls, `outcome` and `unknown_tool` for outcomes that have an identity, `arms` for
    compactions followed by a retry.
    """

    __slots__ = (
        "agent_id",
        "arms",
        "call_id",
        "key",
        "kind",
        "offset",
        "outcome",
        "partition",
        "poll",
        "sequence",
        "session_id",
        "time",
        "unknown_tool",
    )

    def __init__(
        self,
        kind: Kind,
        partition: RunPartition,
        offset: int,
        time: int,
        sequence: int | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        call_id: str | None = None,
        key: SignatureKey | None = None,
        poll: bool = False,
        outcome: bytes | None = None,
        unknown_tool: str | None = None,
        arms: bool = False,
    ) -> None:
        self.kind: Kind = kind
        self.partition = partition
        self.offset = offset
        self.time = time
        self.sequence = sequence
        self.session_id = session_id
        self.agent_id = agent_id
        self.call_id = call_id
        self.key = key
        self.poll = poll
        self.outcome = outcome
        self.unknown_tool = unknown_tool
        self.arms = arms


def _signature(data: ToolCall) -> tuple[SignatureKey, bool]:
    tool = normalize_tool(data.tool)
    poll = is_poll(tool, data.params) if data.has_params else bool(data.poll)
    return (tool, bytes.fromhex(data.args_hash or args_hash(data.params))), poll


def _outcome(data: ToolCallFinished) -> OutcomeFingerprint:
    if data.outcome_hash is not None:
        return OutcomeFingerprint(
            outcome_hash=data.outcome_hash,
            unknown_tool=data.unknown_tool.lower() if data.unknown_tool else None,
            is_error=bool(data.is_error),
        )
    return outcome_fingerprint(
        data.tool,
        data.params,
        result=data.result if data.has_result else MISSING,
        error=data.error if data.has_error else MISSING,
    )


def record_time(timestamp: int | None) -> int:
    """Return a record's timestamp as a time that can be written.

    Producers with microseconds in there must not stop anybody, nor messages of before Kafka 0.10, which have none.
    """
    return min(max(timestamp or 0, 0), MAX_TIME_MS)


def facts_of(event: CloudEvent, data: RunEvent, *, partition: RunPartition, offset: int, timestamp: int | None) -> Facts:
    """Reduce a parsed event to its facts; `timestamp` is the record's and stands in for a missing event time."""
    kind: Kind
    key: SignatureKey | None = None
    call_id = outcome = unknown_tool = None
    poll = arms = False
    match data:
        case ToolCallStarted() | ToolCallBlocked():
            kind = "started" if isinstance(data, ToolCallStarted) else "blocked"
            (key, poll), call_id = _signature(data), data.call_id
        case ToolCallFinished():
            kind = "finished"
            (key, poll), call_id = _signature(data), data.call_id
            fingerprint = _outcome(data)
            if fingerprint.outcome_hash is not None:
                outcome = bytes.fromhex(fingerprint.outcome_hash)[:OUTCOME_DIGEST_BYTES]
                unknown_tool = fingerprint.unknown_tool
        case CompactionCompleted():
            kind, arms = "compaction", data.will_retry
        case RunEnded():
            kind = "ended"
        case _:
            raise TypeError(f"no facts are known of {type(data).__name__}")
    return Facts(
        kind=kind,
        partition=partition,
        offset=offset,
        time=event.time if event.time is not None else record_time(timestamp),
        sequence=event.sequence,
        session_id=data.session_id,
        agent_id=data.agent_id,
        call_id=call_id,
        key=key,
        poll=poll,
        outcome=outcome,
        unknown_tool=unknown_tool,
        arms=arms,
    )
