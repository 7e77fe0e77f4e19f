"""Decisions: what a worker says about the next calls of a run."""

from typing import Annotated, ClassVar, Literal, Self

import xxhash
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from schemas import cloudevents
from schemas.canonical_json import canonical_bytes
from schemas.cloudevents import TYPE_PREFIX, Headers, InvalidEventError
from schemas.events import Hash, RunId, ToolName
from schemas.policy.model import Mode

Action = Literal["block", "warn", "release", "abort"]
Level = Literal["warning", "critical"]

DECISION_TYPE = f"{TYPE_PREFIX}decision.v1"


def _milliseconds(value: object) -> object:
    return value if isinstance(value, int) else cloudevents.time_ms(value)


#: Milliseconds since 1970; RFC 3339 text on the wire.
Timestamp = Annotated[int, BeforeValidator(_milliseconds), PlainSerializer(cloudevents.format_time, when_used="json")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Target(_Model):
    """Which next calls a decision is about: all of the run's, all to one tool, or those with one signature."""

    scope: Literal["run", "tool", "call"]
    tool: ToolName | None = None
    args_hash: Hash | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted = {"run": (False, False), "tool": (True, False), "call": (True, True)}[self.scope]
        if (self.tool is not None, self.args_hash is not None) != wanted:
            raise ValueError("scope run has neither tool nor args_hash, tool has a tool, call has both")
        return self


class Origin(_Model):
    """A record: topic, partition and offset; `agent.tool-calls.v1[3]@1042` in text."""

    topic: str
    partition: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class AsOf(Origin):
    """The event after which a decision holds; `time` is the event's."""

    sequence: Annotated[int, Field(ge=0)] | None = None
    call_id: str | None = None
    time: Timestamp


class EvidenceCall(_Model):
    """One call that a decision rests on."""

    sequence: Annotated[int, Field(ge=0)] | None = None
    call_id: str | None = None


class Decision(_Model):
    """A standing verdict of a run appeared, changed or went away.

    Of two computations of one decision only `decided_at` differs. `count` is the detector's: calls
    in the streak, in the alternation (the pending one included) or with the signature. `since` is the first tool-call event
    of the run, `as_of` the event after which the decision holds. A `release` carries detector, level and count of the
    verdict that went away and a `reason`: `used` when the call that a warning is about was made, else `changed`.
    """

    event_name: ClassVar[str] = "decision"

    decision_id: Hash
    run_id: RunId
    session_id: str | None = None
    agent_id: str | None = None
    action: Action
    level: Level
    detector: str
    target: Target
    count: Annotated[int, Field(ge=0)]
    paired_tool: str | None = None
    reason: Literal["used", "changed"] | None = None
    message: str
    warning_key: str
    late: bool = False
    mode: Mode = "enforce"
    policy_version: str
    engine_version: str
    since: Origin
    as_of: AsOf
    evidence: tuple[EvidenceCall, ...] = ()
    decided_at: Timestamp | None = None

    def to_record(self, *, source: str) -> bytes:
        """Write the decision as a structured CloudEvent; its id is the decision id."""
        return cloudevents.structured(
            event_type=DECISION_TYPE,
            source=source,
            event_id=self.decision_id,
            run_id=self.run_id,
            data=self.model_dump(mode="json", exclude_none=True),
            time=self.decided_at,
        )

    @classmethod
    def from_record(cls, value: bytes, headers: Headers = ()) -> Self:
        """Read a decision back.

        Raises `InvalidEventError`, with code `unknown_type` for other records of the decisions topic.
        """
        event = cloudevents.parse(value, headers)
        if event.type != DECISION_TYPE:
            raise InvalidEventError("unknown_type", f"type: expected {DECISION_TYPE}")
        try:
            return cls.model_validate(event.data)
        except ValidationError as error:
            raise InvalidEventError("invalid_data", cloudevents.describe(error, within="data")) from None


def decision_id(
    *,
    policy_version: str,
    run_id: str,
    action: Action,
    target: Target,
    detector: str,
    count: int,
    as_of: AsOf,
) -> str:
    """Return the deterministic id of a decision: XXH3-128 in hex over the canonical JSON of what it says.

    An event without a sequence is named by its topic, partition and offset instead.
    """
    event = as_of.sequence if as_of.sequence is not None else str(as_of)
    said = [policy_version, run_id, action, target.scope, target.tool, target.args_hash, detector, count, event]
    return xxhash.xxh3_128_hexdigest(canonical_bytes(said))
