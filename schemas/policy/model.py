"""The blocks of a policy document as they are published: OpenClaw's `tools.loopDetection` and our own `loopwarden`.

The same models read a document in two ways. By default every fault is an error, for files that people write. With the
context `LENIENT`, for documents that are in force already, an unknown key is ignored and a value that does not fit counts as
null, which is what OpenClaw's detection makes of it.

A model remembers which keys were given (`model_fields_set`): in an agent's block an explicit null hides the global value.
"""

from itertools import pairwise
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

Mode = Literal["enforce", "shadow"]
MODES: Final[tuple[str, ...]] = get_args(Mode)

DetectorName = Literal[
    "generic_repeat",
    "known_poll_no_progress",
    "ping_pong",
    "unknown_tool_repeat",
    "global_circuit_breaker",
    "compaction_loop_persisted",
]
DETECTOR_NAMES: Final[tuple[str, ...]] = get_args(DetectorName)

#: The largest whole number that a JSON number of another language surely holds; a larger count is never reached.
LARGEST_NUMBER: Final = 2**53 - 1

#: Validation context: read like OpenClaw's detection, not like its config loader.
LENIENT: Final = {"lenient": True}

#: Error types of the validators below; their messages say what is expected.
NOT_A_WHOLE_NUMBER: Final = "whole_number"
BLANK_ID: Final = "blank_id"


def _is_lenient(info: ValidationInfo) -> bool:
    return info.context is LENIENT


def _whole_number(value: object, info: ValidationInfo) -> int:
    # JSON has one kind of number: 3.0 is the whole number 3. A bool is an int for Python alone.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        if value <= LARGEST_NUMBER:
            return value
        if _is_lenient(info):
            return LARGEST_NUMBER
        raise PydanticCustomError(NOT_A_WHOLE_NUMBER, "a whole number of at most 9007199254740991")
    raise PydanticCustomError(NOT_A_WHOLE_NUMBER, "a whole number above 0")


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError(BLANK_ID, "an agent id")
    return value


def _known_detectors(value: object, info: ValidationInfo) -> object:
    # A newer release may publish names that this one does not have.
    if _is_lenient(info) and isinstance(value, list):
        return [name for name in value if isinstance(name, str) and name in DETECTOR_NAMES]
    return value


def _usable_entries(value: object, info: ValidationInfo) -> object:
    if _is_lenient(info) and isinstance(value, list):
        return [entry for entry in value if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    return value


# The bounds are checked by the validator, with its own message; here they are for the published schema.
Count = Annotated[int, Field(ge=1, le=LARGEST_NUMBER), BeforeValidator(_whole_number)]


class Container(BaseModel):
    """An object that we share with other settings: keys that are not ours are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=False, validate_by_alias=True, extra="ignore", frozen=True, strict=True
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _odd_value_counts_as_null(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError:
            if _is_lenient(info):
                return None
            raise

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """Return the keys of the object that we read as a document spells them."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


class Block(Container):
    """An object that is all ours: a key that we do not know is an error, unless the reading is lenient."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_unknown_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if _is_lenient(info) and isinstance(value, dict):
            known = cls.key_names()
            return {key: item for key, item in value.items() if key in known}
        return value


class Detectors(Block):
    """Switches of single detectors; the others have none."""

    generic_repeat: bool | None = None
    """The same call with the same arguments again and again; default true."""
    known_poll_no_progress: bool | None = None
    """Polls whose outcome stays the same; default true."""
    ping_pong: bool | None = None
    """Two calls in turn; default true."""


class PostCompactionGuard(Block):
    """Settings of the post-compaction guard."""

    window_size: Count | None = None
    """Outcomes looked at after a compaction, all of which must be alike for an abort; default 3."""


class LoopDetection(Block):
    """OpenClaw's `tools.loopDetection`."""

    enabled: bool | None = None
    """true: detectors and guard run; absent: only the guard; false: nothing."""
    history_size: Count | None = None
    """Calls kept for each run, at most 1,000; default 30."""
    warning_threshold: Count | None = None
    """Count at which a detector warns; default 10."""
    critical_threshold: Count | None = None
    """Count at which a detector blocks; raised when not above `warningThreshold`; default 20."""
    global_circuit_breaker_threshold: Count | None = None
    """Equal outcomes of one call in a row that block it, polls too; raised when not above `criticalThreshold`; default 30."""
    unknown_tool_threshold: Count | None = None
    """Calls of a tool in a row, each answered that it is missing, until the tool is blocked; default 10."""
    detectors: Detectors | None = None
    """Switches of single detectors."""
    post_compaction_guard: PostCompactionGuard | None = None
    """Settings of the post-compaction guard."""


class Loopwarden(Block):
    """Our own settings, beside `tools`."""

    mode: Mode | None = None
    """`enforce`: gateways act on the decisions; `shadow`: they are only reported; default `enforce`."""
    shadow: Annotated[list[DetectorName] | None, BeforeValidator(_known_detectors)] = None
    """Detectors that are only reported, whatever the mode."""


class Tools(Container):
    """The object `tools`, of which only loop detection is ours."""

    loop_detection: LoopDetection | None = None
    """The settings of loop detection."""


class AgentEntry(Container):
    """One entry of `agents.list`."""

    id: Annotated[str, AfterValidator(_not_blank)]
    """The agent; compared trimmed and in lower case, with other characters than letters, digits, - and _ as one dash."""
    tools: Tools | None = None
    """What differs for this agent from the top-level `tools`."""
    loopwarden: Loopwarden | None = None
    """What differs for this agent from the top-level `loopwarden`."""


class Agents(Container):
    """The object `agents`, of which only the list is ours."""

    entries: Annotated[list[AgentEntry] | None, BeforeValidator(_usable_entries), Field(alias="list")] = None
    """Agents with settings of their own; of two entries for one agent the first counts."""


class Policy(Container):
    """A whole document: ours, or an `openclaw.json`."""

    tools: Tools | None = None
    """Settings for all agents."""
    loopwarden: Loopwarden | None = None
    """Our own settings for all agents."""
    agents: Agents | None = None
    """Settings of single agents."""


def misordered_thresholds(block: LoopDetection) -> list[tuple[str, str]]:
    """Return the pairs of thresholds given in one block of which the first is not below the second.

    Keys as a document spells them. A threshold that is absent or null takes no part: it has a default, and is raised.
    """
    given = [
        (key, value)
        for key, value in (
            ("warningThreshold", block.warning_threshold),
            ("criticalThreshold", block.critical_threshold),
            ("globalCircuitBreakerThreshold", block.global_circuit_breaker_threshold),
        )
        if value is not None
    ]
    return [(low, high) for (low, below), (high, above) in pairwise(given) if below >= above]
