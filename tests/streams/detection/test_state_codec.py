"""The stored form of a state."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.detection import state_codec
from streams.detection.history import OPEN, SEALED, History, Outcome
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
        call = state.history.append((tool, args), poll=False, sequence=sequence, call_id=call_id)
        state.history.settle(call, Outcome(hashlib.md5(args).digest()[:8], sequence + 900_000, number * 700, number * 7300))
        state.tool_sequence, state.tool_offset, state.last_time = sequence + 900_000, number * 700, number * 7300
    state.since = 0
    return state


def test_a_full_history_of_different_calls_stays_under_two_kibibytes() -> None:
    assert len(state_codec.encode(healthy_state())) < 2048


def test_encoding_a_decoded_state_gives_the_same_bytes() -> None:
    stored = state_codec.encode(healthy_state())
    assert state_codec.encode(state_codec.decode("run-1", stored)) == stored


#: Written by the first version of the codec: calls with sequences 100 to 130, one without id, one without outcome.
VERSION_1 = bytes.fromhex(
    "019f920bff92cc83ffcd07d0a0a173c007c0ffc0c28090c09e92a465786563a472656164c440000000000000000000000000000000000101010101010101"
    "0101010101010101020202020202020202020202020202020303030303030303030303030303030394000100019101909464"
    "0a0a0aa094c4070271a965ff5000c4070171a965ff6d80c0c403ffc3bcc40809090909090909099401010001930101019304030193cd03e8cd03e7cd03e5"
    "93c0c0a3666f6f"
)


def test_a_state_of_the_first_version_is_read() -> None:
    history = state_codec.decode("r", VERSION_1).history
    assert [(call.call_id, call.sequence, call.signature.key[0]) for call in history.calls] == [
        ("call_1", 100, "exec"),
        ("call_22", 110, "read"),
        (None, 120, "exec"),
        ("ü", 130, "read"),
    ]
    assert [call.outcome.sequence if call.outcome else None for call in history.calls] == [101, 111, None, 131]
    assert told(history.calls[-1].outcome) == (bytes([9]) * 8, 131, 10, 1003, "foo")


def test_a_record_of_a_later_version_is_not_held_back_in_a_recovery_so_that_reading_it_says_what_to_do() -> None:
    later = bytes([state_codec.CODEC_VERSION + 1]) + b"?"
    assert state_codec.is_newer(VERSION_1, later)
    assert state_codec.is_newer(later, VERSION_1)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.sampled_from([None, "x", "y"])),
        max_size=40,
    )
)
def test_a_history_that_was_stored_answers_as_the_one_that_was_not(steps: list[tuple[str, int, int, bool, str | None]]) -> None:
    state = RunState("r")
    for number, (tool, args, outcome, settled, missing) in enumerate(steps):
        call = state.history.append((tool, bytes([args]) * 16), poll=False, sequence=10 * number, call_id=f"c{number}")
        if settled:
            state.history.settle(call, Outcome(bytes([outcome]) * 8, 10 * number + 5, number, number, missing))
        state.history.trim(12)
    back = state_codec.decode("r", state_codec.encode(state)).history
    for history in (state.history, back):
        history.append(("a", bytes(16)), poll=False, sequence=1000, call_id=None)
        history.trim(12)
    assert described(back) == described(state.history)


def told(outcome: Outcome | None) -> object:
    return outcome and (outcome.digest, outcome.sequence, outcome.offset, outcome.time, outcome.unknown_tool)


def described(history: History) -> object:
    alternation = history.alternation()
    return (
        [(call.signature.key, call.call_id, call.sequence, told(call.outcome)) for call in history.calls],
        {key: (s.count, s.outcomes, s.streak, s.poll, s.pending, s.newest_digest) for key, s in history.signatures.items()},
        alternation and (alternation.last.key, alternation.other.key, alternation.length),
        history.missing_tool(),
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 60),
            st.integers(0, 2),
            st.sampled_from([0, 0, 0, 1, 20, 70, None]),
            st.sampled_from([None, None, "x"]),
            st.sampled_from(["kept", "kept", "kept", "stored", "read again"]),
        ),
        min_size=100,
        max_size=300,
    ),
    st.sampled_from([48, 90, 200]),
)
def test_a_long_history_answers_the_same_however_often_it_was_stored(
    steps: list[tuple[str, int, int, int | None, str | None, str]], size: int
) -> None:
    """Outcomes come at once, some calls later, or never; sequences are missing here and there."""
    state, plain = RunState("r"), RunState("r")
    for number, (tool, args, outcome, late, missing, then) in enumerate(steps):
        for one in (state, plain):
            history = one.history
            sequence = None if number % 11 == 3 else 10 * number
            history.append((tool, bytes([args]) * 16), poll=args == number, sequence=sequence, call_id=f"c{number}")
            if late is not None and late < len(history.calls) and history.calls[-1 - late].outcome is None:
                found = Outcome(bytes([outcome]) * 8, sequence and sequence + 5, number, 7 * number, missing)
                history.settle(history.calls[-1 - late], found)
            history.trim(size)
            one.tool_offset, one.last_time = number, 7 * number
        if then != "kept":
            stored = state_codec.encode(state)
            if then == "read again":
                state = state_codec.decode("r", stored)
                assert state_codec.encode(state) == stored
    assert described(state_codec.decode("r", state_codec.encode(state)).history) == described(plain.history)


def test_only_long_histories_need_this_version_to_be_read() -> None:
    assert state_codec.encode(healthy_state(30))[0] == 2
    assert state_codec.encode(healthy_state(300))[0] == state_codec.CODEC_VERSION == 3


def test_what_is_packed_for_a_commit_does_not_grow_with_the_history() -> None:
    state = healthy_state(1000)
    state_codec.encode(state)
    before = list(state.history.sealed)
    state.history.append(("exec", bytes(16)), poll=False, sequence=None, call_id=None)
    state.history.trim(1000)
    state_codec.encode(state)
    assert len(before) == (1000 - OPEN) // SEALED
    assert all(kept is packed for kept, packed in zip(state.history.sealed, before, strict=True))


def test_a_history_that_a_policy_cuts_short_loses_its_sealed_calls() -> None:
    state = healthy_state(300)
    stored = state_codec.encode(state)
    for one in (state, state_codec.decode("run-1", stored)):
        one.history.trim(20)
        back = state_codec.decode("run-1", state_codec.encode(one))
        assert described(back.history) == described(one.history)
        one.history.trim(OPEN - 1)
        assert state_codec.encode(one)[0] == 2


def test_damaged_sealed_calls_are_refused_with_the_remedy() -> None:
    stored = state_codec.encode(healthy_state(300))
    *others, sealed, left = msgspec.msgpack.decode(stored[1:])
    damaged = msgspec.msgpack.encode([*others, [b"\xc1", *sealed[1:]], left])
    with pytest.raises(state_codec.StateVersionError, match=r"run r9: .*delete"):
        state_codec.decode("r9", stored[:1] + damaged)


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
    state.history.append(("t", bytes(16)), poll=True, sequence=4, call_id=call_id)
    state.history.append(("t", bytes(16)), poll=True, sequence=None, call_id=None)
    back = state_codec.decode("r", state_codec.encode(state))
    assert [(c.call_id, c.sequence, c.signature.poll) for c in back.history.calls] == [(call_id, 4, True), (None, None, True)]
