"""The columns that a stored state consists of, as msgspec packs them.

By themselves, because the compiler of the engine makes other classes than msgspec's of what it compiles.
"""

import msgspec


class StoredGuard(msgspec.Struct, array_like=True):
    """A guard that is armed, or waits to be."""

    waiting: list[int]
    armed_at: int | None = None
    window: int = 0
    seen: int = 0
    uniform: bool = True
    first: tuple[str, bytes, bytes] | None = None
    evidence: list[tuple[int | None, str | None]] = []


class StoredCalls(msgspec.Struct, array_like=True):
    """Columns over the calls; sequences as the distance from the call before, outcomes' from their call.

    `signature_of` and `outcome_of` are empty when every call, or every outcome, is a new one: the usual case of a healthy run.
    """

    tools: list[str]
    signatures: bytes
    signature_tools: list[int]
    polls: list[int]
    signature_of: list[int]
    sequences: list[int | None]
    id_prefix: str
    ids: list[bytes | None]
    digests: bytes
    outcome_of: list[int]
    outcome_sequences: list[int | None]
    outcome_offsets: list[int]
    outcome_times: list[int]
    missing_tools: list[str | None]
    #: length of each id after the prefix, and all of them packed; then `ids` is empty (since version 2)
    joined_ids: tuple[int, bytes] | None = None


class StoredState(msgspec.Struct, array_like=True):
    """A whole state; pairs are of the tool-calls topic and of the compactions topic."""

    offsets: tuple[int, int]
    sequences: tuple[int, int]
    last_time: int
    policy_version: str
    session_id: str | None
    agent_id: str | None
    since: int | None
    last: tuple[int | None, str | None, int, int] | None
    lost_outcome: int
    abort_window: tuple[int, int] | None
    ended: bool
    announced: dict[bytes, int]
    standing: list[tuple[str | None, bytes | None, str, str, int, str, str | None, str]]
    guard: StoredGuard | None
    calls: StoredCalls | None


class SealedCalls(msgspec.Struct, array_like=True):
    """Calls whose stored form does not change: offsets and times of outcomes are distances before `offset` and `time`."""

    offset: int
    time: int
    calls: StoredCalls


class StoredLongState(StoredState, array_like=True):
    """A state with a long history: `calls` has its newest calls, `sealed` those before them as packed `SealedCalls`.

    The first `left` of these have left the history.
    """

    sealed: list[bytes] = []
    left: int = 0


class Head(msgspec.Struct, array_like=True):
    """What can be read of a stored state without building it: a tenth of the time."""

    #: input offsets that it contains: tool calls, compactions
    offsets: tuple[int, int]
    sequences: msgspec.Raw
    #: milliseconds since 1970
    last_time: int
    policy_version: str
    session_id: msgspec.Raw
    agent_id: msgspec.Raw
    since: msgspec.Raw
    last: msgspec.Raw
    lost_outcome: msgspec.Raw
    abort_window: msgspec.Raw
    ended: bool
