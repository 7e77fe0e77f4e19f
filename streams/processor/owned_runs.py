"""The runs of the partitions that this worker owns: decoded states over their table."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from streams.detection import state_codec
from streams.detection.run_state import RunState
from streams.processor.partition_policy import POLICY_KEY, PartitionPolicy, decode, encode
from streams.transport import BatchTable

#: Decoded runs kept per worker between commits, at least those used last, and the calls of their histories. A call takes about
#: 550 bytes: 350 MB at historySize 30, where the runs are the limit, and 1.1 GB at most with long histories.
MAX_DECODED_RUNS = 20_000
MAX_DECODED_CALLS = 2_000_000

#: Says whether input offsets (tool calls, compactions) of a partition are committed.
IsCommitted = Callable[[int, tuple[int, int]], bool]


class StateSlice(NamedTuple):
    """States to be written, None where a run is to be deleted, by partition and key; `is_last` when the round has no more."""

    changes: Mapping[int, Mapping[bytes, bytes | None]]
    is_last: bool


class OwnedRuns:
    """Decoded runs, which of them the table has to hear of, and which are to go.

    A run that ended leaves a stub with its input offsets, so that events delivered again do not bring it back to life; the stub
    goes as soon as the offsets behind it are committed.

    They are written in rounds of several slices, between which batches are applied: a round covers what was touched before it
    began. A state may be written with later events in it, whose batches the next round covers.
    """

    def __init__(self, table: BatchTable) -> None:
        self._table = table
        self._states: dict[int, dict[str, RunState]] = {}
        #: decoded runs that were not used since the last time that room was made
        self._older: dict[int, dict[str, RunState]] = {}
        #: runs that the table has to hear of: in the round that is under way, and in the next
        self._round: dict[int, set[str]] = {}
        self._touched: dict[int, set[str]] = {}
        self._ended: dict[int, dict[str, tuple[int, int]]] = {}

    @property
    def unwritten(self) -> bool:
        """Whether the table has to hear of anything."""
        return bool(self._round) or any(self._touched.values()) or any(self._ended.values())

    def get(self, partition: int, run_id: str) -> RunState:
        """Return the state of a run, a fresh one when there is none."""
        states = self._states.setdefault(partition, {})
        state = states.get(run_id)
        if state is None:
            older = self._older.get(partition)
            state = older.pop(run_id, None) if older else None
            if state is None:
                state = self._read(partition, run_id)
            states[run_id] = state
        return state

    def decoded(self, partition: int) -> dict[str, RunState]:
        """Return the states of a partition that are at hand, to be read only and until the next commit; `get` adds to them."""
        return self._states.setdefault(partition, {})

    def touched(self, partition: int) -> set[str]:
        """Return the set of runs whose states are written with the next commit, to be added to before any commit begins."""
        return self._touched.setdefault(partition, set())

    def _read(self, partition: int, run_id: str) -> RunState:
        stored = self._table.get_raw(partition, run_id.encode())
        return RunState(run_id) if stored is None else state_codec.decode(run_id, stored)

    def touch(self, partition: int, run_id: str) -> None:
        """Have the state of a run written with the next commit."""
        self._touched.setdefault(partition, set()).add(run_id)

    def is_touched(self, partition: int, run_id: str) -> bool:
        """Whether the stored state of a run is behind the decoded one."""
        return run_id in self._touched.get(partition, ()) or run_id in self._round.get(partition, ())

    def end(self, partition: int, run_id: str, offsets: tuple[int, int]) -> None:
        """Have a run forgotten once its input offsets are committed, unless it has another event before that."""
        self._ended.setdefault(partition, {})[run_id] = offsets

    def keys(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of the stored runs of a partition as they are at the call."""
        return (key for key in self._table.keys_of(partition) if key != POLICY_KEY)

    def stored(self, partition: int, key: bytes) -> bytes | None:
        """Return the stored state of a run."""
        return self._table.get_raw(partition, key)

    def is_judged_by_another(self, partition: int, key: bytes, version: str) -> bool:
        """Whether the stored verdicts of a run were worked out under another policy; cheap, without decoding its calls."""
        stored = self.stored(partition, key)
        return stored is not None and state_codec.head(key.decode(), stored).policy_version != version

    def policy(self, partition: int) -> PartitionPolicy | None:
        """Return the policy in force of a partition, None when it has none yet."""
        stored = self._table.get_raw(partition, POLICY_KEY)
        return None if stored is None else decode(partition, stored)

    async def put_policy(self, partition: int, policy: PartitionPolicy) -> None:
        """Write the policy in force of a partition."""
        await self._table.put_many(partition, {POLICY_KEY: encode(policy)})

    def begin_round(self) -> int:
        """Begin a round of writing, or add to the one under way, and return how many runs are to be written."""
        for partition in (*self._touched, *self._ended):
            self._round.setdefault(partition, set()).update(self._touched.pop(partition, ()))
        return sum(map(len, self._round.values()))

    def take_slice(self, limit: int, *, is_committed: IsCommitted) -> StateSlice:
        """Return up to `limit` runs of the round as they are now; they must be put before the next slice is taken.

        Batches may be applied in between.
        """
        changes: dict[int, dict[bytes, bytes | None]] = {}
        while self._round and limit > 0:
            partition, waiting = next(iter(self._round.items()))
            of_partition = changes.setdefault(partition, {})
            while waiting and limit > 0:
                limit -= 1
                run_id = waiting.pop()
                of_partition[run_id.encode()] = self._encoded(partition, run_id)
            if not waiting:
                del self._round[partition]
                of_partition.update(self._tombstones(partition, is_committed))
        return StateSlice({partition: changed for partition, changed in changes.items() if changed}, is_last=not self._round)

    async def put(self, states: StateSlice) -> None:
        """Write a slice to the changelog, then to the store; runs that are deleted stay at hand until then.

        Were they not, an event in between would find what is still in the store: an idle run as it was before it was forgotten.
        """
        writes = (self._table.put_many(partition, of_partition) for partition, of_partition in states.changes.items())
        # None is left to go on by itself when another fails.
        for result in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        for partition, changed in states.changes.items():
            for key in [key for key, state in changed.items() if state is None]:
                self._let_go(partition, key.decode())
        if states.is_last:
            self._make_room()

    def _encoded(self, partition: int, run_id: str) -> bytes:
        self._touched.get(partition, set()).discard(run_id)
        state = self._states.get(partition, {}).get(run_id) or self._older[partition][run_id]
        if state.ended:
            self._ended.setdefault(partition, {})[run_id] = (state.tool_offset, state.compaction_offset)
        else:
            self._ended.get(partition, {}).pop(run_id, None)
        return state_codec.encode(state)

    def _tombstones(self, partition: int, is_committed: IsCommitted) -> dict[bytes, bytes | None]:
        ended = self._ended.get(partition, {})
        touched = self._touched.get(partition, ())
        gone = [run_id for run_id, offsets in ended.items() if run_id not in touched and is_committed(partition, offsets)]
        for run_id in gone:
            del ended[run_id]
        return {run_id.encode(): None for run_id in gone}

    def _let_go(self, partition: int, run_id: str) -> None:
        if not self.is_touched(partition, run_id):
            self._states.get(partition, {}).pop(run_id, None)
            self._older.get(partition, {}).pop(run_id, None)

    def _make_room(self) -> None:
        if not self._is_full():
            return
        oldest, self._older, self._states = self._older, self._states, {}
        for partition, touched in self._touched.items():  # not written yet: they stay
            older, kept = self._older.get(partition, {}), self._states.setdefault(partition, {})
            for run_id in touched:
                kept[run_id] = older.pop(run_id) if run_id in older else oldest[partition][run_id]

    def _is_full(self) -> bool:
        if sum(len(states) for states in self._states.values()) > MAX_DECODED_RUNS // 2:
            return True
        calls = sum(len(state.history.calls) for states in self._states.values() for state in states.values())
        return calls > MAX_DECODED_CALLS // 2

    def forget(self) -> None:
        """Forget everything that is not in the table."""
        self._states.clear()
        self._older.clear()
        self._round.clear()
        self._touched.clear()
        self._ended.clear()
