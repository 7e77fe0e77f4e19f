"""A decision as it is handed over: what it says, and the CloudEvent in JSON that carries it."""

from dataclasses import dataclass
from typing import Any

from schemas import cloudevents
from schemas.cloudevents import STRUCTURED_CONTENT_TYPE, InvalidEventError
from schemas.decisions import DECISION_TYPE, Decision, Origin


@dataclass(frozen=True, slots=True)
class DecisionEnvelope:
    """A decision, the record it was read from, and its structured CloudEvent."""

    origin: Origin
    decision: Decision
    body: bytes


def read_envelope(record: Any) -> DecisionEnvelope | None:
    """Return the decision of an aiokafka `ConsumerRecord`; None for another record of the topic, such as `policy.applied`.

    A structured event is handed on byte for byte, fields of newer workers included; one in binary mode is written as a
    structured one. Raises `InvalidEventError`.
    """
    value, headers = record.value or b"", record.headers
    event = cloudevents.parse(value, headers)
    if event.type != DECISION_TYPE:
        return None
    decision = Decision.from_record(value, headers)
    names = {name.lower(): raw for name, raw in headers}
    content_type = (names.get("content-type") or b"").split(b";", 1)[0].strip().lower()
    if "ce_specversion" in names and content_type != STRUCTURED_CONTENT_TYPE.encode():
        if not isinstance(event.data, dict):
            raise InvalidEventError("invalid_data", "data: must be an object")
        value = cloudevents.structured(
            event_type=event.type,
            source=event.source,
            event_id=event.id,
            run_id=decision.run_id,
            data=event.data,
            time=event.time,
            sequence=event.sequence,
        )
    origin = Origin(topic=record.topic, partition=record.partition, offset=record.offset)
    return DecisionEnvelope(origin, decision, value)
