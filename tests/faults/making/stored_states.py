"""Run states for a changelog: many of them, and of versions that there are not yet."""

from collections.abc import Iterator

import msgspec

from schemas.policy import PolicyDocument
from schemas.topics import partition_of
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState
from tests.facts import changed

#: A first byte that no codec will have soon.
NEWER_VERSION = 250

#: Places of fields in the stored form, and the mark of an id that is stored as it is.
_CALLS, _ID_PREFIX, _IDS, _JOINED_IDS = 14, 6, 7, 14
_PLAIN = b"\xff"


def working_state(run_id: str, *, calls: int, policy: PolicyDocument, home: RunPartition) -> RunState:
    """Return the state of a run that has made `calls` different calls."""
    state = RunState(run_id)
    for number in range(calls):
        for kind, offset in (("started", 2 * number), ("finished", 2 * number + 1)):
            facts = Facts(
                kind=kind,  # type: ignore[arg-type]  # one of the two
                partition=home,
                offset=-1,
                time=1_735_689_600_000 + offset,
                sequence=offset + 1,
                call_id=f"call_{number:024d}",
                key=("exec", number.to_bytes(16)),
                outcome=number.to_bytes(8) if kind == "finished" else None,
            )
            apply(state, changed(facts, offset=offset), policy)
    state.tool_offset = -1  # the records are not on the topic: nothing of it is applied
    return state


def many_states(
    runs: int, *, calls: int, partitions: int, policy: PolicyDocument, topic: str
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield partition, key and stored state of many runs; the stored form does not hold the run's id."""
    stored = state_codec.encode(working_state("any", calls=calls, policy=policy, home=RunPartition(topic, 0)))
    for number in range(runs):
        run_id = f"stored-{number:07d}"
        yield partition_of(run_id, partitions), run_id.encode(), stored


def of_newer_version(stored: bytes) -> bytes:
    """Return a state as a later version might write it: another first byte, and what follows is no MessagePack."""
    return bytes((NEWER_VERSION,)) + b"\xc1" + stored[1:]


def of_version_1(run_id: str, stored: bytes) -> bytes:
    """Return a stored state as the first version of the codec wrote it: every call id by itself."""
    fields = msgspec.msgpack.decode(stored[1:])
    calls = fields[_CALLS]
    if calls is not None:
        prefix = len(calls[_ID_PREFIX])
        ids = [call.call_id for call in state_codec.decode(run_id, stored).history.calls]
        calls[_IDS] = [None if call_id is None else _PLAIN + call_id[prefix:].encode() for call_id in ids]
        del calls[_JOINED_IDS:]
    return b"\x01" + msgspec.msgpack.encode(fields)
