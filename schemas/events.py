"""The events that gateways publish: tool calls, compactions and the end of a run."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from schemas import cloudevents
from schemas.cloudevents import TYPE_PREFIX, CloudEvent, Headers, InvalidEventError

# Run states keep these texts for every call of the history, and a state has to fit into one changelog record: hence the bounds.
RunId = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Label = Annotated[str, StringConstraints(max_length=1024)]
CallId = Annotated[str, StringConstraints(max_length=256)]
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
MissingToolName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class RunEvent(BaseModel):
    """What every event of a run says."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    #: the last part of the CloudEvents type, `dev.loopwarden.<name>.v1`
    event_name: ClassVar[str]

    run_id: RunId
    """The run, `session:<session id>` at a gateway without run ids; its UTF-8 bytes are the record key."""
    session_id: Label | None = None
    """The session that the run belongs to."""
    agent_id: Label | None = None
    """The agent whose policy holds for the run."""
    parent_run_id: Label | None = None
    """The run that started this one."""
    round: int | Label | None = None
    """The turn of the run, for people; detection does not look at it."""
    lost_events: Annotated[int, Field(ge=0)] | None = None
    """Events of the run that the gateway had to drop since the one before; workers do not look at it."""

    @classmethod
    def event_type(cls) -> str:
        """Return the CloudEvents type."""
        return f"{TYPE_PREFIX}{cls.event_name}.v1"


class ToolCall(RunEvent):
    """A tool call: the tool, and its parameters or their hash.

    A given `args_hash` wins over `params`; `poll` says what a hash hides, and is worked out from `params` when these are there.
    """

    call_id: CallId | None = None
    """The id that pairs a call with its end; may be missing, and need not be unique within a run."""
    tool: ToolName
    """The tool as the gateway names it."""
    params: Any = None
    """The parameters as any JSON value; null when the call has none."""
    args_hash: Hash | None = None
    """Hash of the parameters, so that they need not be sent."""
    poll: bool | None = None
    """The call asks for news of something that goes on: repeating it is no fault in itself."""
    preview: str | None = None
    """A short text for people who read timelines."""

    @model_validator(mode="after")
    def _identified(self) -> Self:
        if self.args_hash is None and "params" not in self.model_fields_set:
            raise ValueError("params or args_hash is required")
        return self

    @property
    def has_params(self) -> bool:
        """Whether the parameters themselves were sent (null is a value)."""
        return "params" in self.model_fields_set


class ToolCallStarted(ToolCall):
    """A tool call goes ahead."""

    event_name: ClassVar[str] = "tool-call.started"


class ToolCallFinished(ToolCall):
    """A tool call has ended: with a result, an error, or no known outcome.

    A given `outcome_hash` wins over `result` and `error`; `unknown_tool` names the missing tool that the error text names.
    """

    event_name: ClassVar[str] = "tool-call.finished"

    result: Any = None
    """What the tool returned, any JSON value."""
    error: Any = None
    """What the tool failed with: a text, or any JSON value; null is no error."""
    outcome_hash: Hash | None = None
    """Hash of what the outcome means, so that it need not be sent."""
    unknown_tool: MissingToolName | None = None
    """The tool that an error says is missing."""
    is_error: bool | None = None
    """The outcome is an error."""

    @property
    def has_result(self) -> bool:
        """Whether a result was sent (null is a value)."""
        return "result" in self.model_fields_set

    @property
    def has_error(self) -> bool:
        """Whether an error was sent; a null error is none."""
        return self.error is not None


class ToolCallBlocked(ToolCall):
    """A tool call was refused by the gateway and did not run."""

    event_name: ClassVar[str] = "tool-call.blocked"

    decision_id: Label | None = None
    """The decision that the gateway acted on."""
    reason: Literal["loop", "policy", "approval", "other"]
    """Why: `loop` for a decision of Loopwarden, else the gateway's own."""


class CompactionCompleted(RunEvent):
    """The context of a run was compacted; `will_retry` says that the interrupted turn is tried again, which arms the guard."""

    event_name: ClassVar[str] = "compaction.completed"

    will_retry: bool
    """The interrupted turn is tried again."""
    trigger: Label | None = None
    """What the gateway compacted for, in its own words."""
    tokens_before: Annotated[int, Field(ge=0)] | None = None
    """Size of the context before."""
    tokens_after: Annotated[int, Field(ge=0)] | None = None
    """Size of the context after."""


class RunEnded(RunEvent):
    """A run is over: its state is dropped."""

    event_name: ClassVar[str] = "run.ended"

    status: Label | None = None
    """How it ended, in the gateway's words."""


#: The event models of each input topic, by CloudEvents type.
TOOL_CALL_EVENTS: Mapping[str, type[RunEvent]] = {
    model.event_type(): model for model in (ToolCallStarted, ToolCallFinished, ToolCallBlocked, RunEnded)
}
COMPACTION_EVENTS: Mapping[str, type[RunEvent]] = {CompactionCompleted.event_type(): CompactionCompleted}
EVENTS: Mapping[str, type[RunEvent]] = {**TOOL_CALL_EVENTS, **COMPACTION_EVENTS}


def parse_event(
    value: bytes | None,
    headers: Headers = (),
    *,
    key: bytes | None,
    max_bytes: int,
    models: Mapping[str, type[RunEvent]] = EVENTS,
) -> tuple[CloudEvent, RunEvent]:
    """Read one record of an input topic: its CloudEvent and the data as the model of its type.

    `models` are the types that the record's topic may carry. Raises `InvalidEventError`; its codes are `empty`, `too_large`,
    `not_json`, `not_cloudevent`, `unknown_type`, `wrong_topic`, `invalid_data` and `key_mismatch`.
    """
    if not value:
        raise InvalidEventError("empty", "the value is empty: an event is one JSON object")
    if len(value) > max_bytes:
        raise InvalidEventError(
            "too_large",
            f"{len(value)} bytes: an event may have {max_bytes} (max_event_bytes); send hashes instead of content",
        )
    event = cloudevents.parse(value, headers)
    model = models.get(event.type)
    if model is None:
        if event.type in EVENTS:
            raise InvalidEventError("wrong_topic", f"type: {EVENTS[event.type].event_name} does not belong on this topic")
        raise InvalidEventError("unknown_type", f"type: expected one of {', '.join(sorted(models))}")
    try:
        data = model.model_validate(event.data)
    except ValidationError as error:
        raise InvalidEventError("invalid_data", cloudevents.describe(error, within="data")) from None
    if key is None or key != data.run_id.encode():
        raise InvalidEventError("key_mismatch", "the record key must be data.run_id in UTF-8")
    return event, data
