"""The stored form of a run's state: one version byte, then MessagePack columns.

Only what cannot be worked out again is stored; counts, streaks and alternations are rebuilt from the calls. Fields may be
appended with a default without a new version: readers ignore fields that they do not know.

The older calls of a long history are packed once, in portions that are kept with it, so that a commit costs about the same
whatever the size of the history.
"""

import base64
import re
from dataclasses import astuple
from typing import Any

import msgspec

from streams.detection.guard import Guard, Observation
from streams.detection.history import OPEN, SEALED, Call, History, Outcome, Signature, SignatureKey
from streams.detection.run_state import LastEvent, RunState, Standing, TargetKey
from streams.detection.stored_state import Head, SealedCalls, StoredCalls, StoredGuard, StoredLongState, StoredState

#: The newest version that is read and written: a state with sealed calls.
CODEC_VERSION = 3

#: A state without sealed calls is written as the releases before write it.
_WITHOUT_SEALED = 2

#: Version 1 had every id packed by itself.
_READABLE = frozenset({1, _WITHOUT_SEALED, CODEC_VERSION})

#: Marks an id that is stored as it is.
_PLAIN = b"\xff"

_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+")


class StateVersionError(ValueError):
    """A stored state that this version cannot read."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StoredLongState)
_sealed_decoder = msgspec.msgpack.Decoder(SealedCalls)
_head_decoder = msgspec.msgpack.Decoder(Head)


def encode(state: RunState) -> bytes:
    """Return the stored form of a state; portions of a long history are packed on the way, and kept."""
    history = state.history
    _seal(history)
    calls, signatures = history.calls, list(history.signatures.values())
    sealed, left = history.sealed, 0
    if sealed:
        left = calls[0].ordinal - history.sealed_from
        calls = calls[SEALED * len(sealed) - left :]
        signatures = _signatures(calls)
    stored = StoredState(
        offsets=(state.tool_offset, state.compaction_offset),
        sequences=(state.tool_sequence, state.compaction_sequence),
        last_time=state.last_time,
        policy_version=state.policy_version,
        session_id=state.session_id,
        agent_id=state.agent_id,
        since=state.since,
        last=(last.sequence, last.call_id, last.offset, last.time) if (last := state.last) is not None else None,
        lost_outcome=state.lost_outcome,
        abort_window=state.abort_window,
        ended=state.ended,
        announced=state.announced,
        standing=[(*target, *(None,) * (2 - len(target)), *astuple(standing)) for target, standing in state.standing.items()],
        guard=_encode_guard(state.guard),
        calls=_encode_calls(calls, signatures, state.tool_offset, state.last_time) if calls else None,
    )
    if not sealed:
        return bytes((_WITHOUT_SEALED,)) + _encoder.encode(stored)
    return bytes((CODEC_VERSION,)) + _encoder.encode([*msgspec.structs.astuple(stored), sealed, left])


def decode(run_id: str, data: bytes) -> RunState:
    """Return the state of a run.

    Raises `StateVersionError` for a record of a newer version, or one that is damaged.
    """
    stored: StoredLongState = _read(_decoder, run_id, data)
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
        history = state.history
        signatures: dict[SignatureKey, Signature] | None = {} if stored.sealed else None
        left = stored.left
        for packed in stored.sealed:
            portion = _unseal(run_id, packed)
            _decode_calls(history, portion.calls, signatures, portion.offset, portion.time, left)
            left = 0
        history.sealed = stored.sealed
        history.sealed_from = -stored.left
        _decode_calls(history, stored.calls, signatures, state.tool_offset, state.last_time)
        history.restored()
    return state


def head(run_id: str, data: bytes) -> Head:
    """Return the head of a stored state; raises `StateVersionError` as `decode` does."""
    found: Head = _read(_head_decoder, run_id, data)
    return found


def _read(decoder: Any, run_id: str, data: bytes) -> Any:
    if not data or data[0] not in _READABLE:
        found = data[0] if data else "none"
        raise StateVersionError(
            f"run {run_id}: stored state has codec version {found}, this worker reads up to {CODEC_VERSION}: "
            "upgrade the worker, or give it another LOOPWARDEN_GROUP to begin afresh"
        )
    try:
        return decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise _damaged(run_id, error) from None


def _unseal(run_id: str, packed: bytes) -> SealedCalls:
    try:
        found: SealedCalls = _sealed_decoder.decode(packed)
    except msgspec.DecodeError as error:
        raise _damaged(run_id, error) from None
    return found


def _damaged(run_id: str, error: msgspec.DecodeError) -> StateVersionError:
    return StateVersionError(f"run {run_id}: stored state is damaged ({error}): delete its changelog record")


def is_newer(old: bytes, new: bytes) -> bool:
    """Whether a changelog record may replace the one before it: a paused worker may have written late."""
    if not (old[:1] and old[0] in _READABLE and new[:1] and new[0] in _READABLE):
        return True  # refused when it is read
    before, after = head("", old).offsets, head("", new).offsets
    return after[0] >= before[0] and after[1] >= before[1]


def _encode_guard(guard: Guard) -> StoredGuard | None:
    if guard.armed_at is None and not guard.waiting:
        return None
    first = (*guard.first.key, guard.first.digest) if guard.first is not None else None
    return StoredGuard(guard.waiting, guard.armed_at, guard.window, guard.seen, guard.uniform, first, guard.evidence)


def _decode_guard(guard: Guard, stored: StoredGuard) -> None:
    guard.waiting = stored.waiting
    guard.armed_at, guard.window, guard.seen, guard.uniform = stored.armed_at, stored.window, stored.seen, stored.uniform
    if stored.first is not None:
        tool, args_hash, digest = stored.first
        guard.first = Observation((tool, args_hash), digest)
    guard.evidence = list(stored.evidence)


def _seal(history: History) -> None:
    calls, sealed = history.calls, history.sealed
    if not calls:
        return
    if not sealed:
        history.sealed_from = calls[0].ordinal
    begin = history.sealed_from + SEALED * len(sealed) - calls[0].ordinal
    while len(calls) - begin >= SEALED + OPEN:
        portion = calls[begin : begin + SEALED]
        offset, time = -1, 0
        for call in portion:
            if call.outcome is not None:
                offset, time = max(offset, call.outcome.offset), max(time, call.outcome.time)
        columns = _encode_calls(portion, _signatures(portion), offset, time)
        sealed.append(_encoder.encode(SealedCalls(offset, time, columns)))
        begin += SEALED


def _signatures(calls: list[Call]) -> list[Signature]:
    return list({call.signature.key: call.signature for call in calls}.values())


def _encode_calls(calls: list[Call], signatures: list[Signature], tool_offset: int, last_time: int) -> StoredCalls:
    tools: dict[str, int] = {}
    ids: list[str | None] = []
    sequences: list[int | None] = []
    digests: dict[bytes, int] = {}
    outcome_of: list[int] = []
    outcome_sequences: list[int | None] = []
    outcome_offsets: list[int] = []
    outcome_times: list[int] = []
    missing_tools: list[str | None] = []
    names_missing_tools = False
    # One pass, each call looked at once: the columns of a state are made some hundred thousand times a minute.
    before = 0
    for call in calls:
        ids.append(call.call_id)
        sequence = call.sequence
        if sequence is None:
            sequences.append(None)
        else:
            sequences.append(sequence - before)
            before = sequence
        outcome = call.outcome
        if outcome is None:
            outcome_of.append(0)
            continue
        outcome_of.append(1 + digests.setdefault(outcome.digest, len(digests)))
        of_outcome = outcome.sequence
        outcome_sequences.append(None if of_outcome is None else of_outcome - before)
        outcome_offsets.append(tool_offset - outcome.offset)
        outcome_times.append(last_time - outcome.time)
        missing = outcome.unknown_tool
        missing_tools.append(missing)
        names_missing_tools = names_missing_tools or missing is not None
    prefix = _common_prefix(ids)
    joined = _join(ids, len(prefix))
    signature_tools = [tools.setdefault(signature.key[0], len(tools)) for signature in signatures]
    return StoredCalls(
        tools=list(tools),
        signatures=b"".join([signature.key[1] for signature in signatures]),
        signature_tools=signature_tools,
        polls=[number for number, signature in enumerate(signatures) if signature.poll],
        signature_of=_signature_of(calls, signatures),
        sequences=sequences,
        id_prefix=prefix,
        ids=[None if call_id is None else _pack(call_id[len(prefix) :]) for call_id in ids] if joined is None else [],
        digests=b"".join(digests),
        outcome_of=outcome_of if len(digests) < len(calls) else [],
        outcome_sequences=outcome_sequences,
        outcome_offsets=outcome_offsets,
        outcome_times=outcome_times,
        missing_tools=missing_tools if names_missing_tools else [],
        joined_ids=joined,
    )


def _signature_of(calls: list[Call], signatures: list[Signature]) -> list[int]:
    if len(signatures) == len(calls):
        for number, call in enumerate(calls):
            if signatures[number] is not call.signature:
                break
        else:
            return []
    numbers = {id(signature): number for number, signature in enumerate(signatures)}
    return [numbers[id(call.signature)] for call in calls]


def _decode_calls(
    history: History,
    stored: StoredCalls,
    known: dict[SignatureKey, Signature] | None,
    tool_offset: int,
    last_time: int,
    left: int = 0,
) -> None:
    """Add stored calls to a history but the first `left`; `known` has the signatures of the portions before."""
    hashes, digests = stored.signatures, stored.digests
    polls = frozenset(stored.polls)
    signatures: list[Signature] = []
    for number, tool in enumerate(stored.signature_tools):
        signatures.append(Signature((stored.tools[tool], hashes[16 * number : 16 * number + 16]), number in polls))
    sequences = stored.sequences
    count = len(sequences)
    ids = _split(stored) if stored.joined_ids is not None else [_whole_id(stored.id_prefix, packed) for packed in stored.ids]
    signature_of, outcome_of = stored.signature_of, stored.outcome_of
    outcome_sequences, offsets, times = stored.outcome_sequences, stored.outcome_offsets, stored.outcome_times
    missing_tools = stored.missing_tools
    before = 0
    settled = 0
    for position in range(count):
        distance = sequences[position]
        sequence: int | None = None
        if distance is not None:
            before += distance
            sequence = before
        outcome: Outcome | None = None
        index = outcome_of[position] if outcome_of else position + 1
        if index:
            after = outcome_sequences[settled]
            outcome = Outcome(
                digests[8 * index - 8 : 8 * index],
                None if after is None else before + after,
                tool_offset - offsets[settled],
                last_time - times[settled],
                missing_tools[settled] if missing_tools else None,
            )
            settled += 1
        if position < left:
            continue
        signature = signatures[signature_of[position] if signature_of else position]
        if known is not None:
            one = known.setdefault(signature.key, signature)
            one.poll = one.poll or signature.poll
            signature = one
        history.restore(signature, sequence=sequence, call_id=ids[position], outcome=outcome)


def _join(ids: list[str | None], prefix: int) -> tuple[int, bytes] | None:
    # The ids of a gateway mostly have one length and one alphabet: packed in one go, a tenth of the time.
    lengths = {-1 if call_id is None else len(call_id) for call_id in ids}
    if len(lengths) != 1 or -1 in lengths:
        return None
    text = "".join([call_id[prefix:] for call_id in ids if call_id is not None])
    return (len(text) // len(ids), _pack(text)) if _URL_SAFE.fullmatch(text) else None


def _split(stored: StoredCalls) -> list[str]:
    length, packed = stored.joined_ids or (0, b"")
    text = _unpack(packed)
    return [stored.id_prefix + text[start : start + length] for start in range(0, len(text), length)]


def _whole_id(prefix: str, packed: bytes | None) -> str | None:
    return None if packed is None else prefix + _unpack(packed)


def _common_prefix(ids: list[str | None]) -> str:
    given = [call_id for call_id in ids if call_id is not None]
    if not given:
        return ""
    low, high = min(given), max(given)
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
