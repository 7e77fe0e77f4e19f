"""The runs of the partitions that this worker owns: decoded states over their table."""

from collections.abc import Callable, Iterator

from streams.detection import state_codec
from streams.detection.run_state import RunState
from streams.processor.partition_policy import POLICY_KEY, PartitionPolicy, decode, encode
from streams.transport import BatchTable

#: Decoded runs kept per worker between commits, at least those used last; one takes about 10 KB at a full history.
MAX_DECODED_RUNS = 20_000

#: Says whether input offsets (tool calls, compactions) of a partition are committed.
IsCommitted = Callable[[int, tuple[int, int]], bool]


class OwnedRuns:
    """Decoded runs, which of them the table has to hear of, and which are to go.

    A run that ended leaves a stub with its input offsets, so that events delivered again do not bring it back to life; the stub
    goes as soon as the offsets behind it are committed.
    """

    def __init__(self, table: BatchTable) -> None:
        self._table = table
        self._states: dict[int, dict[str, RunState]] = {}
        #: decoded runs that were not used since the last time that room was made
        self._older: dict[int, dict[str, RunState]] = {}
        self._touched: dict[int, set[str]] = {}
        self._ended: dict[int, dict[str, tuple[int, int]]] = {}

    @property
    def unwritten(self) -> bool:
        """Whether the table has to hear of anything."""
        return any(self._touched.values()) or any(self._ended.values())

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

    def _read(self, partition: int, run_id: str) -> RunState:
        stored = self._table.get_raw(partition, run_id.encode())
        return RunState(run_id) if stored is None else state_codec.decode(run_id, stored)

    def touch(self, partition: int, run_id: str) -> None:
        """Have the state of a run written with the next commit."""
        self._touched.setdefault(partition, set()).add(run_id)

    def is_touched(self, partition: int, run_id: str) -> bool:
        """Whether the stored state of a run is behind the decoded one."""
        return run_id in self._touched.get(partition, ())

    def end(self, partition: int, run_id: str, offsets: tuple[int, int]) -> None:
        """Have a run forgotten once its input offsets are committed, unless it has another event before that."""
        self._ended.setdefault(partition, {})[run_id] = offsets

    def keys(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of the stored runs of a partition as they are at the call."""
        return (key for key in self._table.keys_of(partition) if key != POLICY_KEY)

    def stored(self, partition: int, key: bytes) -> bytes | None:
        """Return the stored state of a run."""
        return self._table.get_raw(partition, key)

    def policy(self, partition: int) -> PartitionPolicy | None:
        """Return the policy in force of a partition, None when it has none yet."""
        stored = self._table.get_raw(partition, POLICY_KEY)
        return None if stored is None else decode(partition, stored)

    async def put_policy(self, partition: int, policy: PartitionPolicy) -> None:
        """Write the policy in force of a partition."""
        await self._table.put_many(partition, {POLICY_KEY: encode(policy)})

    async def write(self, *, is_committed: IsCommitted, ensure_owned: Callable[[], None]) -> None:
        """Write what changed to the changelog, then to the store; `ensure_owned` is called before each write."""
        for partition in sorted({*self._touched, *self._ended}):
            states = self._states.get(partition, {})
            touched = self._touched.get(partition, set())
            ended = self._ended.setdefault(partition, {})
            changes: dict[bytes, bytes | None] = {}
            for run_id in touched:
                state = states[run_id]
                changes[run_id.encode()] = state_codec.encode(state)
                if state.ended:
                    ended[run_id] = (state.tool_offset, state.compaction_offset)
                else:
                    ended.pop(run_id, None)
            gone = [run_id for run_id, offsets in ended.items() if run_id not in touched and is_committed(partition, offsets)]
            changes.update((run_id.encode(), None) for run_id in gone)
            if changes:
                ensure_owned()
                await self._table.put_many(partition, changes)
            for run_id in gone:
                del ended[run_id]
                states.pop(run_id, None)
                if partition in self._older:
                    self._older[partition].pop(run_id, None)
            touched.clear()
        self._make_room()

    def _make_room(self) -> None:
        # Called when everything is written, so any decoded run may be dropped.
        if sum(len(states) for states in self._states.values()) > MAX_DECODED_RUNS // 2:
            self._older = self._states
            self._states = {}

    def forget(self) -> None:
        """Forget everything that is not in the table."""
        self._states.clear()
        self._older.clear()
        self._touched.clear()
        self._ended.clear()
