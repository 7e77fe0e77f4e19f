"""The catalogue: every message of every topic, with its model and its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from schemas.contract.data_schemas import Schema, View, data_schema
from schemas.contract.envelope import attributes, message_schema
from schemas.contract.examples import EXAMPLES
from schemas.decisions import DECISION_TYPE, Decision
from schemas.deliveries import DELIVERY_TYPE, Delivery
from schemas.events import EVENTS, TOOL_CALL_EVENTS
from schemas.policy.model import Policy
from schemas.policy_applied import POLICY_APPLIED_TYPE, PolicyApplied
from schemas.policy_records import POLICY_TYPE

Channel = Literal["toolCalls", "compactions", "decisions", "deliveries", "policies"]

_RUN = "The run id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One type of message.

    `name` is the part of the type between prefix and version. `view`: `read` when others write it and we read it. `subject` says
    in words what the attribute holds, None: there is none. `of_run`: it has `partitionkey`, `sequenced`: it has `sequence`.
    """

    name: str
    event_type: str
    channel: Channel
    model: type[BaseModel]
    view: View
    key: Schema
    subject: str | None
    of_run: bool = False
    sequenced: bool = False

    @property
    def data_schema(self) -> Schema:
        """The schema of `data`."""
        return data_schema(self.model, view=self.view)

    @property
    def attributes(self) -> dict[str, Schema]:
        """The schemas of the CloudEvents attributes, `data` not among them."""
        return attributes(self.event_type, subject=self.subject, of_run=self.of_run, sequenced=self.sequenced)

    @property
    def schema(self) -> Schema:
        """The schema of the whole message, with examples."""
        schema = message_schema(self.data_schema, name=self.name, attributes=self.attributes)
        return schema | {"examples": list(self.examples.values())}

    @property
    def examples(self) -> Mapping[str, dict[str, Any]]:
        """Messages in structured mode, by a name that says what they show."""
        return EXAMPLES[self.name]


_RUN_KEY: Schema = {
    "description": "The run id in UTF-8; the same text as `data.run_id`. The partition is murmur2 of these bytes.",
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
}

MESSAGES: tuple[Message, ...] = (
    *(
        Message(
            name=model.event_name,
            event_type=event_type,
            channel="toolCalls" if event_type in TOOL_CALL_EVENTS else "compactions",
            model=model,
            view="read",
            key=_RUN_KEY,
            subject=_RUN,
            of_run=True,
            sequenced=True,
        )
        for event_type, model in EVENTS.items()
    ),
    Message(
        name=Decision.event_name,
        event_type=DECISION_TYPE,
        channel="decisions",
        model=Decision,
        view="written",
        key=_RUN_KEY,
        subject=_RUN,
        of_run=True,
    ),
    Message(
        name=PolicyApplied.event_name,
        event_type=POLICY_APPLIED_TYPE,
        channel="decisions",
        model=PolicyApplied,
        view="written",
        key={"description": "None: the marker is about the partition that it stands in.", "type": "null"},
        subject=None,
    ),
    Message(
        name=Delivery.event_name,
        event_type=DELIVERY_TYPE,
        channel="deliveries",
        model=Delivery,
        view="written",
        key=_RUN_KEY,
        subject=_RUN,
        of_run=True,
    ),
    Message(
        name="policy",
        event_type=POLICY_TYPE,
        channel="policies",
        model=Policy,
        view="read",
        key={"description": "An agent id, or `*` for the default policy.", "type": "string", "pattern": r"\S"},
        subject="The record key",
    ),
)
