"""Deliveries: what became of a decision at the receiver of an enforcement group."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from schemas import cloudevents
from schemas.cloudevents import TYPE_PREFIX, Headers
from schemas.decisions import Origin, Timestamp
from schemas.events import Hash, RunId

DELIVERY_TYPE = f"{TYPE_PREFIX}delivery.v1"


class Delivery(BaseModel):
    """A decision was handed to a receiver or dead-lettered: its group does not take it up again.

    `attempts` counts those of the worker that brought it to an end. `decision` is the record that the decision was read from.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    event_name: ClassVar[str] = "delivery"

    decision_id: Hash
    """The decision; `group` and this make the CloudEvents id, equal for copies."""
    run_id: RunId
    """The run of the decision."""
    group: str
    """The enforcement group that handed it over; each receiver has one."""
    outcome: Literal["delivered", "dead_lettered"]
    """`delivered`: the receiver took it; `dead_lettered`: it was given up."""
    attempts: Annotated[int, Field(ge=0)]
    """How often it was offered."""
    decision: Origin
    """Where the decision stands."""
    at: Timestamp
    """When it was brought to an end."""

    def to_record(self) -> bytes:
        """Write it as a structured CloudEvent."""
        return cloudevents.structured(
            event_type=DELIVERY_TYPE,
            source=f"loopwarden/{self.group}",
            event_id=f"{self.group}:{self.decision_id}",
            run_id=self.run_id,
            data=self.model_dump(mode="json"),
            time=self.at,
        )

    @classmethod
    def from_record(cls, value: bytes, headers: Headers = ()) -> Self:
        """Read it back; raises `InvalidEventError`."""
        return cloudevents.read_data(cls, DELIVERY_TYPE, value, headers)
