"""The state of one run, and nothing else."""

from dataclasses import dataclass
from typing import Literal, final

import xxhash
from mypy_extensions import mypyc_attr

from schemas.policy import PolicyDocument
from schemas.policy.model import Mode
from streams.detection.detectors import Rules
from streams.detection.guard import Guard
from streams.detection.history import History

#: Announced warnings remembered per run (the reference's number).
MAX_ANNOUNCED = 256

#: A target of the standing verdicts: all calls of the run, those of a tool, or those with a signature.
TargetKey = tuple[()] | tuple[str] | tuple[str, bytes]

RUN: TargetKey = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What the next call with a target would be told right now; the fields are the verdict's."""

    action: Literal["block", "warn", "abort"]
    detector: str
    count: int
    warning_key: str
    paired_tool: str | None = None
    mode: Mode = "enforce"

    def says_the_same(self, other: "Standing") -> bool:
        """Whether a consumer that knows the other need not be told."""
        mine = (self.action, self.detector, self.count, self.mode)
        return mine == (other.action, other.detector, other.count, other.mode)


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class LastEvent:
    """An event of the tool-calls topic that decisions may be dated by; `time` in milliseconds."""

    __slots__ = ("call_id", "offset", "sequence", "time")

    def __init__(self, sequence: int | None, call_id: str | None, offset: int, time: int) -> None:
        self.sequence = sequence
        self.call_id = call_id
        self.offset = offset
        self.time = time


def announcement_key(warning_key: str) -> bytes:
    """Return the eight bytes under which an announced warning is remembered."""
    return xxhash.xxh3_64_digest(warning_key.encode())


@mypyc_attr(acyclic=True)
@final
class RunState:
    """A run's history, guard, announced warnings and standing verdicts, and how far its topics have been applied.

    Offsets are -1 and sequences -1 before the first event. `since` is the offset of the first tool-call event. `lost_outcome` is
    the highest sequence of an outcome that left the history: a compaction before it comes too late to be judged. `abort_window`
    are the sequences of the compaction and of the outcome between which a standing abort was found. `rules` are those that
    `rules_of` has for the agent, None until they are looked up; they are not stored.
    """

    __slots__ = (
        "abort_window",
        "agent_id",
        "announced",
        "compaction_offset",
        "compaction_sequence",
        "ended",
        "guard",
        "history",
        "last",
        "last_time",
        "lost_outcome",
        "policy_version",
        "rules",
        "rules_of",
        "run_id",
        "session_id",
        "since",
        "standing",
        "tool_offset",
        "tool_sequence",
    )

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.tool_offset = -1
        self.compaction_offset = -1
        self.begin()

    def begin(self) -> None:
        """Forget everything but which input offsets have been applied: the same as if the state had been dropped."""
        self.tool_sequence = -1
        self.compaction_sequence = -1
        self.last_time = 0
        self.policy_version = ""
        self.session_id: str | None = None
        self.agent_id: str | None = None
        self.rules: Rules | None = None
        self.rules_of: PolicyDocument | None = None
        self.history = History()
        self.guard = Guard()
        self.announced: dict[bytes, int] = {}
        self.standing: dict[TargetKey, Standing] = {}
        self.since: int | None = None
        self.last: LastEvent | None = None
        self.lost_outcome = -1
        self.abort_window: tuple[int, int] | None = None
        self.ended = False

    def announce(self, warning_key: str, bucket: int) -> None:
        """Remember that a warning was given; the one first given is forgotten first."""
        key = announcement_key(warning_key)
        self.announced[key] = bucket
        if len(self.announced) > MAX_ANNOUNCED:
            del self.announced[next(iter(self.announced))]
