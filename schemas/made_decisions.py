"""Decisions as a worker makes them: plain structs, which write the very bytes that `schemas.decisions.Decision` writes.

That model is the contract, and checks every field of what is read. A worker makes decisions of values that were checked when
their events were read, with up to thirty calls of evidence in each, and models of them would cost it five times as much. Names,
order and meaning of the fields are the model's; tests hold the two to the same bytes.
"""

from typing import Any, Literal

import msgspec

from schemas.cloudevents import format_time
from schemas.decisions import Action, Decision, Level, record_of
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
    """A decision that was just made; when it was decided is said with its record.

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

    def to_data(self) -> dict[str, Any]:
        """Return the data of the event as it stands on the wire."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["as_of"]["time"] = format_time(self.as_of.time)
        data["evidence"] = list(data["evidence"])
        return data

    def to_record(self, *, source: str, decided_at: int | None = None) -> bytes:
        """Write the decision as a structured CloudEvent; `decided_at` in milliseconds."""
        data = self.to_data()
        if decided_at is not None:
            data["decided_at"] = format_time(decided_at)
        return record_of(data, source=source, decided_at=decided_at)

    def as_read(self) -> Decision:
        """Return the decision as readers of its record get it."""
        return Decision.model_validate(self.to_data())
