"""What every reader makes of a log: a stream of items, each of one run, in the order in which they happened."""

from typing import Any, Literal, NamedTuple

from schemas.fingerprints import MISSING

__all__ = [
    "MISSING",
    "CallBlocked",
    "CallFinished",
    "CallStarted",
    "Compacted",
    "Copied",
    "Item",
    "NotUnderstood",
    "Place",
    "PromptGiven",
    "RunFinished",
    "RunRef",
    "Spent",
]


class Place(NamedTuple):
    """A line of a file, counted from 1; `file` is the name that the user knows it by."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class RunRef(NamedTuple):
    """Which run an item belongs to, and whose it is."""

    run_id: str
    session_id: str | None = None
    agent_id: str | None = None
    parent_run_id: str | None = None


class CallStarted(NamedTuple):
    """A tool call was made; `time` in milliseconds since 1970, None where the log has none.

    A log that has hashes in place of content gives `args_hash` (and `poll`) and leaves `params` out. `sequence` is set only by
    logs that carry one of their own, `preview` by those that tell people what hashes hide.
    """

    run: RunRef
    place: Place
    time: int | None
    call_id: str | None
    tool: str
    params: Any = MISSING
    args_hash: str | None = None
    poll: bool | None = None
    sequence: int | None = None
    preview: str | None = None


class CallFinished(NamedTuple):
    """A tool call has ended: with a result, an error, the hash of one of them, or (all left out) no known outcome.

    The fields of the call are those of its start.
    """

    run: RunRef
    place: Place
    time: int | None
    call_id: str | None
    tool: str
    params: Any = MISSING
    args_hash: str | None = None
    poll: bool | None = None
    sequence: int | None = None
    result: Any = MISSING
    error: Any = None
    outcome_hash: str | None = None
    unknown_tool: str | None = None
    is_error: bool | None = None


class CallBlocked(NamedTuple):
    """A tool call was refused before it ran."""

    run: RunRef
    place: Place
    time: int | None
    call_id: str | None
    tool: str
    reason: Literal["loop", "policy", "approval", "other"]
    params: Any = MISSING
    args_hash: str | None = None
    poll: bool | None = None
    sequence: int | None = None


class Compacted(NamedTuple):
    """The context was compacted.

    `will_retry`: the interrupted turn goes on by itself; None when the log does not say, then what follows tells.
    """

    run: RunRef
    place: Place
    time: int | None
    will_retry: bool | None = None
    trigger: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    sequence: int | None = None


class PromptGiven(NamedTuple):
    """Somebody who is not the agent asked for something: a new turn of the run begins."""

    run: RunRef
    place: Place
    time: int | None


class Spent(NamedTuple):
    """What one response of the model took; `tokens` counts input, cache and output, `cost` is in US dollars or None."""

    run: RunRef
    place: Place
    time: int | None
    tokens: int
    cost: float | None = None


class RunFinished(NamedTuple):
    """The log says that the run is over."""

    run: RunRef
    place: Place
    time: int | None
    status: str | None = None
    sequence: int | None = None


class NotUnderstood(NamedTuple):
    """A line, or a part of one, of which nothing could be made; `reason` holds nothing of its content."""

    place: Place
    reason: str


class Copied(NamedTuple):
    """An entry that was read before: resumed and forked sessions repeat what they go on from."""

    place: Place


RunItem = CallStarted | CallFinished | CallBlocked | Compacted | PromptGiven | Spent | RunFinished
Item = RunItem | NotUnderstood | Copied
