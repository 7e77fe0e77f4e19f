"""The timeline of a run as plain data: what any report shows, whether the calls came from a log or from topics."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["result", "error", "unknown", "blocked"]
Action = Literal["warn", "block", "abort", "release"]


@dataclass(frozen=True, slots=True)
class CallMark:
    """A tool call: where it stands, what it was and how it ended.

    `place` is `file:line` or `topic[partition]@offset`; `time` milliseconds since 1970. Calls with equal `signature` are the same
    call, and their outcomes with equal `outcome_hash` the same outcome. `number` counts the run's calls from 1.
    """

    number: int
    place: str
    time: int | None
    tool: str
    signature: str
    arguments: str = ""
    outcome: Outcome = "unknown"
    outcome_hash: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionMark:
    """A compaction of the context; `retried`: the interrupted turn went on by itself, which arms the guard."""

    place: str
    time: int | None
    retried: bool
    tokens_before: int | None = None
    tokens_after: int | None = None


@dataclass(frozen=True, slots=True)
class PromptMark:
    """Somebody who is not the agent asked for something."""

    place: str
    time: int | None


@dataclass(frozen=True, slots=True)
class VerdictMark:
    """A decision about the next calls of the run, made after the marks before it."""

    place: str
    action: Action
    detector: str
    count: int
    message: str
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class GapMark:
    """Calls that are not shown because there are too many; `once`: each of them was made only once."""

    calls: int
    errors: int = 0
    once: bool = False


Mark = CallMark | CompactionMark | PromptMark | VerdictMark | GapMark
