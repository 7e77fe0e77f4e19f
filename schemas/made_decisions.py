"""Decisions as a worker makes them: plain structs, which write the very bytes that `schemas.decisions.Decision` writes.

That model is the contract, and checks every field of what is read. A worker makes decisions of values that were checked when
their events were read, with up to thirty calls of evidence in each, and models of them would cost it five times as much. Names,
order and meaning of the fields are the model's; tests hold the two to the same bytes.
"""

from typing import Any, Literal

import msgspec

from schemas import json_text
from schemas.cloudevents import format_time
from schemas.decisions import DECISION_TYPE, Action, Decision, Level, record_of
from schemas.policy.model import Mode


class Target(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which next calls a decision is about."""

    scope: Literal["run", "tool", "call"]
    tool: str | None = None
    args_hash: str | None = None


class Origin(msgspec.Struct, frozen=True, gc=False):
    """A record: topic, partition and offset; `agent.tool-calls.v1[3]@1042` in text."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class AsOf(Origin, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The event after which a decision holds; `time` is the event's, in milliseconds."""

    sequence: int | None = None
    call_id: str | None = None
    time: int


class EvidenceCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call that a decision rests on."""

    sequence: int | None = None
    call_id: str | None = None


class MadeDecision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A decision that was just made; `decided_at` (milliseconds) is said with its record.

    Only what may be None has a default: what equals its default is left out of the record.
    """

    decision_id: str
    run_id: str
    session_id: str | None = None
    agent_id: str | None = None
    action: Action
    level: Level
    detector: str
    target: Target
    count: int
    paired_tool: str | None = None
    reason: Literal["used", "changed"] | None = None
    message: str
    warning_key: str
    late: bool
    mode: Mode
    policy_version: str
    engine_version: str
    since: Origin
    as_of: AsOf
    evidence: tuple[EvidenceCall, ...]
    decided_at: int | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the data of the event as it stands on the wire."""
        data: dict[str, Any] = msgspec.to_builtins(_with_times(self, None))
        data["evidence"] = list(data["evidence"])
        return data

    def to_json(self) -> bytes:
        """Write the data of the event, without saying when it was decided."""
        try:
            return _encode(_with_times(self, None))
        except UnicodeEncodeError:  # half a character: JSON text can say that
            return json_text.dumps(self.to_data())

    def to_record(self, *, source: str, decided_at: int | None = None) -> bytes:
        """Write the decision as a structured CloudEvent; `decided_at` in milliseconds."""
        time = None if decided_at is None else format_time(decided_at)
        data, run_id = _with_times(self, time), self.run_id
        event = _Event(
            source=source, id=self.decision_id, subject=run_id, partitionkey=run_id, time=time or msgspec.UNSET, data=data
        )
        try:
            return _encode(event)
        except UnicodeEncodeError:
            return record_of(msgspec.to_builtins(data), source=source, decided_at=decided_at)

    def as_read(self) -> Decision:
        """Return the decision as readers of its record get it."""
        return Decision.model_validate(self.to_data())


class _WrittenAsOf(Origin, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The same event with its time as it is written."""

    sequence: int | None = None
    call_id: str | None = None
    time: str


class _Event(msgspec.Struct, gc=False, kw_only=True):
    """The event around it, as `schemas.cloudevents.structured` writes it."""

    specversion: str = "1.0"
    type: str = DECISION_TYPE
    source: str
    id: str
    subject: str
    partitionkey: str
    time: str | msgspec.UnsetType = msgspec.UNSET
    datacontenttype: str = "application/json"
    data: MadeDecision


_encode = msgspec.json.Encoder().encode


def _with_times(made: MadeDecision, decided_at: str | None) -> MadeDecision:
    """Return a copy for the encoder, in which times are texts."""
    of = made.as_of
    as_of: Any = _WrittenAsOf(
        of.topic, of.partition, of.offset, sequence=of.sequence, call_id=of.call_id, time=format_time(of.time)
    )
    return msgspec.structs.replace(made, as_of=as_of, decided_at=decided_at)
