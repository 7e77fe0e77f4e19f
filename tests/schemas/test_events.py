"""Events on the wire: what is read, and what is refused with which code."""

import json

import pytest

from schemas.cloudevents import InvalidEventError
from schemas.events import (
    COMPACTION_EVENTS,
    TOOL_CALL_EVENTS,
    CompactionCompleted,
    ToolCallFinished,
    ToolCallStarted,
    parse_event,
)


def event(event_type="dev.loopwarden.tool-call.started.v1", data=None, **attributes):
    data = {"run_id": "r1", "tool": "read", "params": {}} if data is None else data
    required = {"specversion": "1.0", "id": "e1", "source": "test", "type": event_type}
    return json.dumps({**required, "data": data, **attributes}).encode()


def parse(value, headers=(), *, key=b"r1", models=TOOL_CALL_EVENTS):
    return parse_event(value, headers, key=key, max_bytes=10_000, models=models)


def test_a_structured_event_is_read_with_its_sequence_and_time():
    envelope, data = parse(event(sequence="0000000000000000042", time="2026-11-30T12:00:00.250+01:00"))
    assert (envelope.sequence, envelope.time) == (42, 1796036400250)
    assert isinstance(data, ToolCallStarted)
    assert data.has_params


def test_a_binary_event_is_read_from_its_headers():
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e1"),
        ("ce_source", b"test"),
        ("ce_type", b"dev.loopwarden.compaction.completed.v1"),
        ("ce_sequence", b"7"),
        ("content-type", b"application/json"),
    ]
    envelope, data = parse(b'{"run_id": "r1", "will_retry": true}', headers, models=COMPACTION_EVENTS)
    assert envelope.sequence == 7
    assert isinstance(data, CompactionCompleted)
    assert data.will_retry


def test_a_null_result_is_a_result_and_a_missing_one_is_none():
    call = {"run_id": "r1", "tool": "read", "params": None}
    kind = "dev.loopwarden.tool-call.finished.v1"
    _, with_null = parse(event(kind, {**call, "result": None}))
    _, without = parse(event(kind, call))
    assert isinstance(with_null, ToolCallFinished)
    assert isinstance(without, ToolCallFinished)
    assert (with_null.has_result, without.has_result) == (True, False)


def test_unknown_attributes_and_fields_are_ignored():
    parse(event(data={"run_id": "r1", "tool": "t", "params": 1, "new_field": 1}, newattribute="x"))


def test_an_event_may_say_how_many_before_it_were_lost():
    _, data = parse(event(data={**CALL, "lost_events": 3}))
    assert data.lost_events == 3
    _, data = parse(event())
    assert data.lost_events is None


CALL = {"run_id": "r1", "tool": "read", "params": {}}
FAULTS = {
    "no value": (None, "empty"),
    "empty value": (b"", "empty"),
    "too large": (event(data={**CALL, "preview": "x" * 10_000}), "too_large"),
    "not JSON": (b"{", "not_json"),
    "binary junk": (b"\xff\x00\x01", "not_json"),
    "NaN": (event().replace(b"{}", b"NaN"), "not_json"),
    "deep nesting": (b"[" * 5_000 + b"]" * 5_000, "not_json"),
    "no object": (b"[1]", "not_cloudevent"),
    "no CloudEvent": (b'{"run_id": "r1"}', "not_cloudevent"),
    "another version": (event(specversion="0.3"), "not_cloudevent"),
    "sequence as a number": (event(sequence=3), "not_cloudevent"),
    "sequence too large": (event(sequence="9" * 30), "not_cloudevent"),
    "time without offset": (event(time="2026-11-30T12:00:00"), "not_cloudevent"),
    "base64": (event(data_base64="AA=="), "not_cloudevent"),
    "unknown type": (event("com.example.thing"), "unknown_type"),
    "other topic": (event("dev.loopwarden.compaction.completed.v1", {"run_id": "r1", "will_retry": True}), "wrong_topic"),
    "no run id": (event(data={"tool": "read", "params": {}}), "invalid_data"),
    "no params": (event(data={"run_id": "r1", "tool": "read"}), "invalid_data"),
    "tool of a wrong type": (event(data={**CALL, "tool": 3}), "invalid_data"),
    "bad hash": (event(data={"run_id": "r1", "tool": "read", "args_hash": "xyz"}), "invalid_data"),
    "key of another run": (event(data={**CALL, "run_id": "r2"}), "key_mismatch"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_event_is_refused_with_a_code_and_without_its_content(fault):
    value, code = FAULTS[fault]
    with pytest.raises(InvalidEventError) as refused:
        parse(value)
    assert refused.value.code == code
    assert "xyz" not in str(refused.value)


def test_a_record_without_a_key_is_refused():
    with pytest.raises(InvalidEventError, match="key must be"):
        parse(event(), key=None)
