"""The stored form of a run's state: one version byte, then MessagePack columns.

Only what cannot be worked out again is stored; counts, streaks and alternations are rebuilt from the calls. Fields may be
appended with a default without a new version: readers ignore fields that they do not know.
"""

import base64
import re
from dataclasses import astuple

import msgspec

from streams.detection.guard import Guard, Observation
from streams.detection.history import History, Outcome, RecordedCall, SignatureKey
from streams.detection.run_state import LastEvent, RunState, Standing, TargetKey

CODEC_VERSION = 2

#: Version 1 had every id packed by itself.
_READABLE = frozenset({1, CODEC_VERSION})

#: Marks an id that is stored as it is.
_PLAIN = b"\xff"

_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+")


class StateVersionError(ValueError):
    """A stored state that this version cannot read."""


class _Guard(msgspec.Struct, array_like=True):
    waiting: list[int]
    armed_at: int | None = None
    window: int = 0
    seen: int = 0
    uniform: bool = True
    first: tuple[str, bytes, bytes] | None = None
    evidence: list[tuple[int | None, str | None]] = []


class _Calls(msgspec.Struct, array_like=True):
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


class _State(msgspec.Struct, array_like=True):
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
    guard: _Guard | None
    calls: _Calls | None


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)
_head_decoder = msgspec.msgpack.Decoder(Head)


def encode(state: RunState) -> bytes:
    """Return the stored form of a state."""
    stored = _State(
        offsets=(state.tool_offset, state.compaction_offset),
        sequences=(state.tool_sequence, state.compaction_sequence),
        last_time=state.last_time,
        policy_version=state.policy_version,
        session_id=state.session_id,
        agent_id=state.agent_id,
        since=state.since,
        last=tuple(state.last) if state.last is not None else None,  # type: ignore[arg-type]  # a named tuple of just these
        lost_outcome=state.lost_outcome,
        abort_window=state.abort_window,
        ended=state.ended,
        announced=state.announced,
        standing=[(*target, *(None,) * (2 - len(target)), *astuple(standing)) for target, standing in state.standing.items()],
        guard=_encode_guard(state.guard),
        calls=_encode_calls(state.history, state.tool_offset, state.last_time) if state.history.calls else None,
    )
    return bytes((CODEC_VERSION,)) + _encoder.encode(stored)


def decode(run_id: str, data: bytes) -> RunState:
    """Return the state of a run.

    Raises `StateVersionError` for a record of a newer version, or one that is damaged.
    """
    if not data or data[0] not in _READABLE:
        found = data[0] if data else "none"
        raise StateVersionError(
            f"run {run_id}: stored state has codec version {found}, this worker reads up to {CODEC_VERSION}: "
            "upgrade the worker, or give it another LOOPWARDEN_GROUP to begin afresh"
        )
    try:
        stored = _decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise StateVersionError(f"run {run_id}: stored state is damaged ({error}): delete its changelog record") from None
    state = RunState(run_id)
    state.tool_offset, state.compaction_offset = stored.offsets
    state.tool_sequence, state.compaction_sequence = stored.sequences
    state.last_time = stored.last_time
    state.policy_version = stored.policy_version
    state.session_id, state.agent_id = stored.session_id, stored.agent_id
    state.since = stored.since
    state.last = LastEvent(*stored.last) if stored.last is not None else None
    state.lost_outcome = stored.lost_outcome
    state.abort_window = stored.abort_window
    state.ended = stored.ended
    state.announced = stored.announced
    for tool, args_hash, action, *rest in stored.standing:
        key: TargetKey = () if tool is None else (tool,) if args_hash is None else (tool, args_hash)
        state.standing[key] = Standing(action, *rest)  # type: ignore[arg-type]  # written by encode
    if stored.guard is not None:
        _decode_guard(state.guard, stored.guard)
    if stored.calls is not None:
        state.history = _decode_calls(stored.calls, state.tool_offset, state.last_time)
    return state


def head(data: bytes) -> Head:
    """Return the head of a stored state of this version."""
    return _head_decoder.decode(memoryview(data)[1:])


def is_newer(old: bytes, new: bytes) -> bool:
    """Whether a changelog record may replace the one before it: a paused worker may have written late."""
    if not (old[:1] and old[0] in _READABLE and new[:1] and new[0] in _READABLE):
        return True  # refused when it is read
    before, after = head(old).offsets, head(new).offsets
    return after[0] >= before[0] and after[1] >= before[1]


def _encode_guard(guard: Guard) -> _Guard | None:
    if guard.armed_at is None and not guard.waiting:
        return None
    first = (guard.first.key.tool, guard.first.key.args_hash, guard.first.digest) if guard.first is not None else None
    return _Guard(guard.waiting, guard.armed_at, guard.window, guard.seen, guard.uniform, first, guard.evidence)


def _decode_guard(guard: Guard, stored: _Guard) -> None:
    guard.waiting = stored.waiting
    guard.armed_at, guard.window, guard.seen, guard.uniform = stored.armed_at, stored.window, stored.seen, stored.uniform
    if stored.first is not None:
        tool, args_hash, digest = stored.first
        guard.first = Observation(SignatureKey(tool, args_hash), digest)
    guard.evidence = list(stored.evidence)


def _encode_calls(history: History, tool_offset: int, last_time: int) -> _Calls:
    tools: dict[str, int] = {}
    numbers: dict[int, int] = {}
    for number, signature in enumerate(history.signatures.values()):
        tools.setdefault(signature.key.tool, len(tools))
        numbers[id(signature)] = number
    digests: dict[bytes, int] = {}
    signature_of: list[int] = []
    sequences: list[int | None] = []
    ids: list[str | None] = []
    outcome_of: list[int] = []
    outcome_sequences: list[int | None] = []
    outcome_offsets: list[int] = []
    outcome_times: list[int] = []
    missing: list[str | None] = []
    before = 0
    for call in history.calls:
        signature_of.append(numbers[id(call.signature)])
        ids.append(call.call_id)
        if call.sequence is None:
            sequences.append(None)
        else:
            sequences.append(call.sequence - before)
            before = call.sequence
        if call.outcome is None:
            outcome_of.append(0)
            continue
        outcome = call.outcome
        outcome_of.append(1 + digests.setdefault(outcome.digest, len(digests)))
        outcome_sequences.append(None if outcome.sequence is None else outcome.sequence - before)
        outcome_offsets.append(tool_offset - outcome.offset)
        outcome_times.append(last_time - outcome.time)
        missing.append(outcome.unknown_tool)
    prefix = _common_prefix([call_id for call_id in ids if call_id is not None])
    joined = _join(ids, len(prefix))
    return _Calls(
        tools=list(tools),
        signatures=b"".join([key.args_hash for key in history.signatures]),
        signature_tools=[tools[key.tool] for key in history.signatures],
        polls=[number for number, signature in enumerate(history.signatures.values()) if signature.poll],
        signature_of=[] if signature_of == list(range(len(ids))) else signature_of,
        sequences=sequences,
        id_prefix=prefix,
        ids=[None if call_id is None else _pack(call_id[len(prefix) :]) for call_id in ids] if joined is None else [],
        digests=b"".join(digests),
        outcome_of=[] if outcome_of == list(range(1, len(ids) + 1)) else outcome_of,
        outcome_sequences=outcome_sequences,
        outcome_offsets=outcome_offsets,
        outcome_times=outcome_times,
        missing_tools=missing if any(missing) else [],
        joined_ids=joined,
    )


def _decode_calls(stored: _Calls, tool_offset: int, last_time: int) -> History:
    hashes, digests = stored.signatures, stored.digests
    keys = [
        SignatureKey(stored.tools[tool], hashes[16 * number : 16 * number + 16])
        for number, tool in enumerate(stored.signature_tools)
    ]
    polls = frozenset(stored.polls)
    count = len(stored.sequences)
    ids = _split(stored) if stored.joined_ids is not None else [_whole_id(stored.id_prefix, packed) for packed in stored.ids]
    outcome_of = stored.outcome_of or range(1, count + 1)
    recorded = []
    before = 0
    settled = 0
    for position, number in enumerate(stored.signature_of or range(count)):
        distance = stored.sequences[position]
        sequence = None
        if distance is not None:
            sequence = before = before + distance
        outcome = None
        if index := outcome_of[position]:
            after = stored.outcome_sequences[settled]
            outcome = Outcome(
                digests[8 * index - 8 : 8 * index],
                None if after is None else before + after,
                tool_offset - stored.outcome_offsets[settled],
                last_time - stored.outcome_times[settled],
                stored.missing_tools[settled] if stored.missing_tools else None,
            )
            settled += 1
        recorded.append(RecordedCall(keys[number], number in polls, sequence, ids[position], outcome))
    return History.restored(recorded)


def _join(ids: list[str | None], prefix: int) -> tuple[int, bytes] | None:
    # The ids of a gateway mostly have one length and one alphabet: packed in one go, a tenth of the time.
    lengths = {-1 if call_id is None else len(call_id) for call_id in ids}
    if len(lengths) != 1 or -1 in lengths:
        return None
    text = "".join([call_id[prefix:] for call_id in ids if call_id is not None])
    return (len(text) // len(ids), _pack(text)) if _URL_SAFE.fullmatch(text) else None


def _split(stored: _Calls) -> list[str]:
    length, packed = stored.joined_ids or (0, b"")
    text = _unpack(packed)
    return [stored.id_prefix + text[start : start + length] for start in range(0, len(text), length)]


def _whole_id(prefix: str, packed: bytes | None) -> str | None:
    return None if packed is None else prefix + _unpack(packed)


def _common_prefix(ids: list[str]) -> str:
    if not ids:
        return ""
    low, high = min(ids), max(ids)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    return low[:length]


def _pack(text: str) -> bytes:
    # Ids are mostly letters, digits, - and _: base64 read backwards saves a quarter. The first byte counts the padding.
    if not _URL_SAFE.fullmatch(text):
        return _PLAIN + text.encode()
    padding = -len(text) % 4
    return bytes((padding,)) + base64.urlsafe_b64decode(text + "A" * padding)


def _unpack(packed: bytes) -> str:
    if packed[:1] == _PLAIN:
        return packed[1:].decode()
    text = base64.urlsafe_b64encode(packed[1:]).decode()
    return text[: len(text) - packed[0]]
