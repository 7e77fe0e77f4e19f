"""States are written in rounds of slices, and none that has something new is lost on the way."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.detection import state_codec
from streams.processor import owned_runs
from streams.processor.owned_runs import OwnedRuns, StateSlice


class Kept:
    """The part of a table that runs use, in memory."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, bytes], bytes] = {}
        self.writes: list[int] = []
        self.fails = False

    def get_raw(self, partition: int, key: bytes) -> bytes | None:
        return self.values.get((partition, key))

    def keys_of(self, partition: int) -> Iterator[bytes]:
        return iter([key for where, key in self.values if where == partition])

    async def put_many(self, partition: int, changes: Mapping[bytes, bytes | None]) -> None:
        await asyncio.sleep(0)
        if self.fails and partition == 0:
            raise RuntimeError("no broker")
        self.writes.append(len(changes))
        for key, value in changes.items():
            if value is None:
                self.values.pop((partition, key), None)
            else:
                self.values[partition, key] = value

    def offset(self, partition: int, run_id: str) -> int:
        stored = self.values.get((partition, run_id.encode()))
        return -1 if stored is None else state_codec.decode(run_id, stored).tool_offset


def runs_of(table: Kept) -> OwnedRuns:
    return OwnedRuns(cast(Any, table))


def advance(runs: OwnedRuns, partition: int, run_id: str, offset: int) -> None:
    runs.get(partition, run_id).tool_offset = offset
    runs.touch(partition, run_id)


async def write_slice(runs: OwnedRuns, limit: int, *, committed: int = -1) -> bool:
    states = runs.take_slice(limit, is_committed=lambda partition, offsets: max(offsets) <= committed)
    await runs.put(states)
    return not states.is_last


steps = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 2), st.integers(0, 7)),
        st.tuples(st.just("take"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("put"), st.just(0), st.just(0)),
    ),
    max_size=80,
)


@given(steps)
def test_whatever_comes_between_the_slices_a_round_writes_all_that_was_touched_before_it(
    steps: list[tuple[str, int, int]],
) -> None:
    """Also between taking and putting one, and with room for so few decoded runs that they are dropped all the time."""

    async def play() -> None:
        table = Kept()
        runs = runs_of(table)
        offsets: dict[tuple[int, str], int] = {}
        promised: dict[tuple[int, str], int] | None = None
        taken: StateSlice | None = None
        for number, (kind, first, second) in enumerate(steps):
            if kind == "event":
                offsets[first, f"run{second}"] = number
                advance(runs, first, f"run{second}", number)
                continue
            if kind == "take" and taken is None:
                if promised is None:
                    runs.begin_round()
                    promised = dict(offsets)
                taken = runs.take_slice(first, is_committed=lambda partition, offsets: False)
            elif kind == "put" and taken is not None:
                await runs.put(taken)
                if taken.is_last:
                    assert promised is not None
                    assert all(table.offset(*place) >= offset for place, offset in promised.items())
                    promised = None
                taken = None
        if taken is not None:
            await runs.put(taken)
        runs.begin_round()
        while await write_slice(runs, 3):
            pass
        assert {place: table.offset(*place) for place in offsets} == offsets
        assert not runs.unwritten

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owned_runs, "MAX_DECODED_RUNS", 6)
        asyncio.run(play())


async def test_a_slice_is_no_larger_than_asked_for_and_a_state_is_not_written_twice_for_nothing() -> None:
    table = Kept()
    runs = runs_of(table)
    for number in range(5):
        advance(runs, 0, f"run{number}", 1)
    assert runs.begin_round() == 5
    assert await write_slice(runs, 2)
    for number in range(5):
        advance(runs, 0, f"run{number}", 2)
    assert await write_slice(runs, 2)
    assert not await write_slice(runs, 2)
    assert table.writes == [2, 2, 1]
    # Three were written with their second event in them.
    assert runs.begin_round() == 2


async def test_runs_with_long_histories_are_not_kept_decoded_as_long_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is used in between stays; room is made at the end of a round."""
    monkeypatch.setattr(owned_runs, "MAX_DECODED_CALLS", 100)
    table = Kept()
    runs = runs_of(table)
    history = runs.get(0, "long").history
    for number in range(51):
        history.append(("exec", bytes(16)), poll=False, sequence=number, call_id=None)
    long = runs.get(0, "long")

    async def round_of(run_id: str, offset: int) -> None:
        advance(runs, 0, run_id, offset)
        runs.begin_round()
        assert not await write_slice(runs, 10)

    await round_of("long", 1)
    assert runs.get(0, "long") is long
    await round_of("short", 1)
    await round_of("short", 2)
    assert runs.get(0, "long") is long
    await round_of("long", 2)
    for offset in (3, 4):
        for number in range(51):
            runs.get(0, "other").history.append(("exec", bytes(16)), poll=False, sequence=number, call_id=None)
        await round_of("other", offset)
    assert runs.get(0, "long") is not long
    assert len(runs.get(0, "long").history.calls) == 51


async def test_a_run_that_ended_is_deleted_when_its_offsets_are_committed_unless_it_goes_on() -> None:
    table = Kept()
    runs = runs_of(table)
    for run_id in ("over", "going on"):
        advance(runs, 0, run_id, 1)
        runs.get(0, run_id).ended = True
    runs.begin_round()
    assert not await write_slice(runs, 10)
    runs.get(0, "going on").ended = False
    advance(runs, 0, "going on", 2)
    runs.begin_round()
    assert not await write_slice(runs, 10, committed=1)
    assert table.offset(0, "going on") == 2
    assert (0, b"over") not in table.values
    assert not runs.unwritten


async def test_a_write_that_fails_is_told_of_when_the_others_are_through() -> None:
    table = Kept()
    table.fails = True
    runs = runs_of(table)
    advance(runs, 0, "a", 1)
    advance(runs, 1, "b", 1)
    runs.begin_round()
    with pytest.raises(RuntimeError, match="no broker"):
        await write_slice(runs, 10)
    assert table.offset(1, "b") == 1


async def test_an_event_between_the_taking_and_the_putting_of_a_deletion_finds_the_run_as_it_was_left() -> None:
    """Not as the store has it: an idle run that was forgotten would go on as if nothing had been."""
    table = Kept()
    runs = runs_of(table)
    advance(runs, 0, "idle", 7)
    runs.get(0, "idle").since = 3
    runs.begin_round()
    assert not await write_slice(runs, 10)
    runs.get(0, "idle").begin()
    runs.end(0, "idle", (7, -1))
    runs.begin_round()
    deletion = runs.take_slice(10, is_committed=lambda partition, offsets: True)
    assert deletion.changes == {0: {b"idle": None}}
    assert runs.get(0, "idle").since is None
    advance(runs, 0, "idle", 8)
    await runs.put(deletion)
    assert runs.get(0, "idle").tool_offset == 8
    runs.begin_round()
    await write_slice(runs, 10)
    assert table.offset(0, "idle") == 8


async def test_a_deleted_run_is_let_go_of_once_the_store_has_no_more_of_it() -> None:
    table = Kept()
    runs = runs_of(table)
    advance(runs, 0, "idle", 7)
    runs.end(0, "idle", (7, -1))
    runs.begin_round()
    await write_slice(runs, 10, committed=-1)
    runs.end(0, "idle", (7, -1))
    runs.begin_round()
    await write_slice(runs, 10, committed=7)
    assert not runs.decoded(0)
    assert table.offset(0, "idle") == -1
