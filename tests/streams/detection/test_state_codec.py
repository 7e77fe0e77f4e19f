"""The stored form of a state."""

import hashlib

import pytest

from streams.detection import state_codec
from streams.detection.history import Outcome, SignatureKey
from streams.detection.run_state import RunState


def healthy_state(calls: int = 30) -> RunState:
    """A full history as real gateways make it: all calls different, long call ids, sequences from a microsecond clock."""
    state = RunState("run-1")
    start = 1_790_000_000_000_000
    for number in range(calls):
        args = hashlib.md5(b"args%d" % number).digest()
        call_id = "toolu_01" + hashlib.sha256(b"%d" % number).hexdigest()[:22]
        sequence = start + number * 7_300_000
        tool = ("exec", "read_file", "apply_patch", "web_search", "update_plan")[number % 5]
        call = state.history.append(SignatureKey(tool, args), poll=False, sequence=sequence, call_id=call_id)
        state.history.settle(call, Outcome(hashlib.md5(args).digest()[:8], sequence + 900_000, number * 700, number * 7300))
        state.tool_sequence, state.tool_offset, state.last_time = sequence + 900_000, number * 700, number * 7300
    state.since = 0
    return state


def test_a_full_history_of_different_calls_stays_under_two_kibibytes() -> None:
    assert len(state_codec.encode(healthy_state())) < 2048


def test_encoding_a_decoded_state_gives_the_same_bytes() -> None:
    stored = state_codec.encode(healthy_state())
    assert state_codec.encode(state_codec.decode("run-1", stored)) == stored


@pytest.mark.parametrize("stored", [b"", b"\x63rest", b"\x01\xc1"])
def test_a_state_of_another_version_or_a_damaged_one_is_refused_with_the_remedy(stored: bytes) -> None:
    with pytest.raises(state_codec.StateVersionError, match=r"run r9: .*(upgrade|delete)"):
        state_codec.decode("r9", stored)


def test_a_record_with_older_offsets_is_not_newer() -> None:
    old, new = RunState("r"), RunState("r")
    new.tool_offset = 5
    first, second = state_codec.encode(old), state_codec.encode(new)
    assert state_codec.is_newer(first, second)
    assert not state_codec.is_newer(second, first)


@pytest.mark.parametrize("call_id", ["c1", "call_9f", "toolu_01ABCdef-_", "ümlaut", "", "a b", "x" * 256])
def test_call_ids_of_any_shape_come_back(call_id: str) -> None:
    state = RunState("r")
    state.history.append(SignatureKey("t", bytes(16)), poll=True, sequence=4, call_id=call_id)
    state.history.append(SignatureKey("t", bytes(16)), poll=True, sequence=None, call_id=None)
    back = state_codec.decode("r", state_codec.encode(state))
    assert [(c.call_id, c.sequence, c.signature.poll) for c in back.history.calls] == [(call_id, 4, True), (None, None, True)]
