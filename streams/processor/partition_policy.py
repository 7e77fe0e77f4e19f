"""The policy in force of a partition, as its changelog keeps it beside the runs."""

from typing import Any

import msgspec

from schemas.policy import PolicyDocument
from streams.detection import state_codec

#: Its key in the table of runs. Run ids are UTF-8, this is not.
POLICY_KEY = b"\xffpolicy"

#: First byte of the record; run states begin with their codec version.
_MARK = b"P"


class PolicyRecordError(ValueError):
    """A stored policy that cannot be read."""


class PartitionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a partition, and the first offsets of its inputs that it holds for.

    `announced` says that its marker is on the decisions topic, `judged` that every run of the partition has been judged under it.
    Both are false when a worker died in between: the next one makes up for it.
    """

    policy: dict[str, Any]
    tool_calls_offset: int
    compactions_offset: int
    announced: bool = False
    judged: bool = False

    def document(self) -> PolicyDocument:
        """Return the policy."""
        return PolicyDocument.from_mapping(self.policy)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PartitionPolicy)


def encode(policy: PartitionPolicy) -> bytes:
    """Return the stored form."""
    return _MARK + _encoder.encode(policy)


def decode(partition: int, data: bytes) -> PartitionPolicy:
    """Read the stored form; raises `PolicyRecordError` for what another version wrote."""
    try:
        # Another mark is a form of a later version, which is not read as JSON either.
        return _decoder.decode(data.removeprefix(_MARK))
    except msgspec.DecodeError as error:
        raise PolicyRecordError(
            f"partition {partition}: the stored policy in force cannot be read ({error}): upgrade the worker, "
            "or give it another LOOPWARDEN_GROUP to begin afresh"
        ) from None


def is_newer(old: bytes, new: bytes) -> bool:
    """Whether a changelog record of the table may replace the one before it: a paused worker may have written late."""
    if old[:1] != _MARK or new[:1] != _MARK:
        return state_codec.is_newer(old, new)
    before, after = _decoder.decode(memoryview(old)[1:]), _decoder.decode(memoryview(new)[1:])
    return after.tool_calls_offset >= before.tool_calls_offset and after.compactions_offset >= before.compactions_offset
