"""From records of the decisions topic to what is handed over."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.cloudevents import InvalidEventError, structured
from schemas.decisions import Decision
from streams.enforcement.envelope import read_envelope

Make = Callable[..., Decision]


def record(value: bytes | None, headers: Any = ()) -> Any:
    return SimpleNamespace(topic="agent.decisions.v1", partition=2, offset=7, key=b"run", value=value, headers=headers)


def test_a_structured_event_is_handed_on_byte_for_byte(decision_factory: Make) -> None:
    event = json.loads(decision_factory().to_record(source="/w"))
    event["traceparent"] = "00-1-2-03"
    event["data"]["a_field_of_tomorrow"] = {"b": [1.50]}
    value = json.dumps(event, indent=1).encode()
    envelope = read_envelope(record(value))
    assert envelope is not None
    assert envelope.body == value
    assert str(envelope.origin) == "agent.decisions.v1[2]@7"


def test_a_binary_event_is_written_as_a_structured_one(decision_factory: Make) -> None:
    made = decision_factory(agent_id="a")
    event = json.loads(made.to_record(source="/w"))
    data = event.pop("data") | {"a_field_of_tomorrow": 1}
    headers = [(f"ce_{name}", str(value).encode()) for name, value in event.items()]
    envelope = read_envelope(record(json.dumps(data).encode(), [*headers, ("content-type", b"application/json")]))
    assert envelope is not None
    assert envelope.decision == made
    body = json.loads(envelope.body)
    assert body["data"] == data
    assert {name: body[name] for name in ("specversion", "id", "source", "type", "subject", "time")} == {
        name: event[name] for name in ("specversion", "id", "source", "type", "subject", "time")
    }


def test_a_marker_is_no_decision() -> None:
    marker = structured(event_type="dev.loopwarden.policy.applied.v1", source="/w", event_id="1", data={})
    assert read_envelope(record(marker)) is None


@pytest.mark.parametrize("value", [None, b"", b"junk", b"[]", b'{"specversion": "1.0"}', b"\xff"])
def test_what_cannot_be_read_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidEventError):
        read_envelope(record(value))


def test_a_decision_without_what_it_must_have_is_invalid(decision_factory: Make) -> None:
    event = json.loads(decision_factory().to_record(source="/w"))
    del event["data"]["run_id"]
    with pytest.raises(InvalidEventError, match=r"data\.run_id"):
        read_envelope(record(json.dumps(event).encode()))
