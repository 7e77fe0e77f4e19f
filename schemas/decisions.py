"""Decisions: what a worker says about the next calls of a run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import xxhash
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from schemas import cloudevents
from schemas.canonical_json import canonical_bytes
from schemas.cloudevents import TYPE_PREFIX, Headers
from schemas.events import Hash, RunId
from schemas.policy.model import Mode

if TYPE_CHECKING:
    from schemas import made_decisions

Action = Literal["block", "warn", "release", "abort"]
Level = Literal["warning", "critical"]

DECISION_TYPE = f"{TYPE_PREFIX}decision.v1"


def _milliseconds(value: object) -> object:
    return value if isinstance(value, int) else cloudevents.time_ms(value)


#: Milliseconds since 1970; RFC 3339 text on the wire.
Timestamp = Annotated[
    int,
    BeforeValidator(_milliseconds),
    PlainSerializer(cloudevents.format_time, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Target(_Model):
    """Which next calls a decision is about: all of the run's, all to one tool, or those with one signature."""

    scope: Literal["run", "tool", "call"]
    """`run`: all calls; `tool`: all calls of `tool`; `call`: those of `tool` with these arguments."""
    tool: Annotated[str, StringConstraints(max_length=1024)] | None = None
    """The normalized name of the tool: other than the name as it was sent it may be empty, or longer than 256 characters."""
    args_hash: Hash | None = None
    """Hash of the arguments."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted = {"run": (False, False), "tool": (True, False), "call": (True, True)}[self.scope]
        if (self.tool is not None, self.args_hash is not None) != wanted:
            raise ValueError("scope run has neither tool nor args_hash, tool has a tool, call has both")
        return self


class Origin(_Model):
    """A record: topic, partition and offset; `agent.tool-calls.v1[3]@1042` in text."""

    topic: str
    """Name of the topic."""
    partition: Annotated[int, Field(ge=0)]
    """Number of the partition."""
    offset: Annotated[int, Field(ge=0)]
    """Offset in the partition."""

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class AsOf(Origin):
    """The event after which a decision holds; `time` is the event's."""

    sequence: Annotated[int, Field(ge=0)] | None = None
    """Sequence of the event, if it had one."""
    call_id: str | None = None
    """Call id of the event, if it had one."""
    time: Timestamp
    """Time of the event."""


class EvidenceCall(_Model):
    """One call that a decision rests on."""

    sequence: Annotated[int, Field(ge=0)] | None = None
    """Sequence of the event that started the call, if it had one."""
    call_id: str | None = None
    """Id of the call, if it had one."""


class Decision(_Model):
    """A standing verdict of a run appeared, changed or went away.

    Of two computations of one decision only `decided_at` differs. `count` is the detector's: calls
    in the streak, in the alternation (the pending one included) or with the signature. `since` is the first tool-call event
    of the run, `as_of` the event after which the decision holds. A `release` carries detector, level and count of the
    verdict that went away and a `reason`: `used` when the call that a warning is about was made, else `changed`.
    """

    event_name: ClassVar[str] = "decision"

    decision_id: Hash
    """Equal for all copies of one decision, and also the CloudEvents id. A policy that goes and comes back makes it again."""
    run_id: RunId
    """The run; its UTF-8 bytes are the record key."""
    session_id: str | None = None
    """The session of the run, if its events name one."""
    agent_id: str | None = None
    """The agent of the run, if its events name one."""
    action: Action
    """`block`: refuse the next calls of the target; `warn`: give the message with the next one, once; `release`: what was said
    about the target no longer holds; `abort`: end the run.
    """
    level: Level
    """How bad it is."""
    detector: str
    """The rule that found it; more may come."""
    target: Target
    """Which next calls are meant."""
    count: Annotated[int, Field(ge=0)]
    """The detector's count."""
    paired_tool: str | None = None
    """The other tool of an alternation."""
    reason: Literal["used", "changed"] | None = None
    """Only of a release: `used` or `changed`."""
    message: str
    """One plain sentence for the model and for people."""
    warning_key: str
    """Names the streak that the decision is about."""
    late: bool = False
    """A blocked call was started all the same."""
    mode: Mode = "enforce"
    """`shadow`: only report it."""
    policy_version: str
    """The policy that it was judged by."""
    engine_version: str
    """The release that judged it."""
    since: Origin
    """The first tool-call event of the run."""
    as_of: AsOf
    """The event after which the decision holds."""
    evidence: tuple[EvidenceCall, ...] = ()
    """The calls that it rests on."""
    decided_at: Timestamp | None = None
    """When the worker decided; the only field that differs between copies."""

    def to_data(self) -> dict[str, Any]:
        """Return the data of the event as it stands on the wire."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_record(self, *, source: str) -> bytes:
        """Write the decision as a structured CloudEvent; its id is the decision id."""
        return record_of(self.to_data(), source=source, decided_at=self.decided_at)

    @classmethod
    def from_record(cls, value: bytes, headers: Headers = ()) -> Self:
        """Read a decision back.

        Raises `InvalidEventError`, with code `unknown_type` for other records of the decisions topic.
        """
        return cloudevents.read_data(cls, DECISION_TYPE, value, headers)


def record_of(data: Mapping[str, Any], *, source: str, decided_at: int | None) -> bytes:
    """Write the data of a decision as a structured CloudEvent; `decided_at` in milliseconds."""
    return cloudevents.structured(
        event_type=DECISION_TYPE,
        source=source,
        event_id=data["decision_id"],
        run_id=data["run_id"],
        data=data,
        time=decided_at,
    )


def decision_id(
    *,
    policy_version: str,
    run_id: str,
    action: Action,
    target: "Target | made_decisions.Target",
    detector: str,
    count: int,
    as_of: "AsOf | made_decisions.AsOf",
    mode: Mode = "enforce",
) -> str:
    """Return the deterministic id of a decision: XXH3-128 in hex over the canonical JSON of what it says.

    An event without a sequence is named by its topic, partition and offset instead. The mode is part of it for shadow decisions
    only: one event may bring a shadow decision and, under another agent's settings, the same one to be enforced.
    """
    event = as_of.sequence if as_of.sequence is not None else str(as_of)
    said: list[Any] = [policy_version, run_id, action, target.scope, target.tool, target.args_hash, detector, count, event]
    if mode == "shadow":
        said.append(mode)
    return xxhash.xxh3_128_hexdigest(canonical_bytes(said))
