"""The marker of the decisions topic that says from which input offsets on a partition is judged by another policy."""

from typing import Annotated, Any, ClassVar, Self

import xxhash
from pydantic import BaseModel, ConfigDict, Field

from schemas import cloudevents
from schemas.canonical_json import canonical_bytes
from schemas.cloudevents import TYPE_PREFIX, Headers
from schemas.decisions import Timestamp

Offset = Annotated[int, Field(ge=0)]


class PolicyApplied(BaseModel):
    """A partition is judged by another policy from these input offsets on.

    Written to the same partition number of the decisions topic, with a null key, before any decision under the policy. `policy`
    is the whole document, as the policies topic is compacted. Copies after a crash differ in `applied_at` only.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    event_name: ClassVar[str] = "policy.applied"

    policy_version: str
    """The version of the policy, as decisions name it."""
    policy: dict[str, Any]
    """The whole policy document."""
    partition: Annotated[int, Field(ge=0)]
    """The partition number, the same in the input topics and in the decisions topic."""
    tool_calls_offset: Offset
    """The first offset of the tool-calls topic that is judged by the policy."""
    compactions_offset: Offset
    """The first offset of the compactions topic that is judged by it."""
    engine_version: str
    """The release that judges."""
    applied_at: Timestamp | None = None
    """When the worker took the policy into force; the only field that differs between copies."""

    @property
    def marker_id(self) -> str:
        """The id of the event: the same for copies after a crash."""
        said = [self.policy_version, self.partition, self.tool_calls_offset, self.compactions_offset]
        return xxhash.xxh3_128_hexdigest(canonical_bytes(said))

    def to_record(self, *, source: str) -> bytes:
        """Write the marker as a structured CloudEvent without subject: it is about no run."""
        return cloudevents.structured(
            event_type=POLICY_APPLIED_TYPE,
            source=source,
            event_id=self.marker_id,
            run_id=None,
            data=self.model_dump(mode="json", exclude_none=True),
            time=self.applied_at,
        )

    @classmethod
    def from_record(cls, value: bytes, headers: Headers = ()) -> Self:
        """Read a marker back; raises `InvalidEventError`, with code `unknown_type` for other records of the topic."""
        return cloudevents.read_data(cls, POLICY_APPLIED_TYPE, value, headers)


POLICY_APPLIED_TYPE = f"{TYPE_PREFIX}{PolicyApplied.event_name}.v1"
