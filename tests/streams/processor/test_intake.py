"""Records of the input topics: facts for the engine, or a dead letter that says why."""

import json
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord

from schemas.cloudevents import InvalidEventError
from schemas.settings import Settings
from streams.detection.facts import RunPartition
from streams.processor.dead_letters import dead_letter
from streams.processor.intake import read_record
from streams.transport import Record

SETTINGS = Settings(max_event_bytes=200_000)
CALLS, COMPACTIONS = SETTINGS.topics.inputs
STARTED = "dev.loopwarden.tool-call.started.v1"
COMPACTION = "dev.loopwarden.compaction.completed.v1"
ENDED = "dev.loopwarden.run.ended.v1"
CALL = {"run_id": "r", "tool": " Read ", "params": {"path": "a"}}


def event(event_type: str = STARTED, data: Any = CALL, **attributes: Any) -> dict[str, Any]:
    """Make the attributes of an event; those that are None are left out."""
    given = {"specversion": "1.0", "id": "1", "source": "/t", "type": event_type, "data": data, **attributes}
    return {name: value for name, value in given.items() if value is not None}


def structured(event_type: str = STARTED, data: Any = CALL, **attributes: Any) -> bytes:
    """Make an event in structured mode."""
    return json.dumps(event(event_type, data, **attributes)).encode()


def binary(event_type: str = STARTED, **attributes: str) -> list[tuple[str, bytes]]:
    """Make the headers of an event in binary mode."""
    given = event(event_type, None, **attributes)
    return [("content-type", b"application/json"), *((f"ce_{name}", value.encode()) for name, value in given.items())]


def record(
    value: bytes | None,
    *,
    key: bytes | None = b"r",
    headers: list[tuple[str, bytes]] | None = None,
    topic: str = CALLS,
    timestamp: int = 1_700_000_000_000,
) -> Record:
    """Make a record of partition 3 at offset 1042."""
    made: Record = ConsumerRecord(
        topic=topic,
        partition=3,
        offset=1042,
        timestamp=timestamp,
        timestamp_type=0,
        key=key,
        value=value,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=tuple(headers or ()),
    )
    return made


def with_params(text: str) -> bytes:
    """Make a call with the given JSON text as its parameters."""
    return structured(data={**CALL, "params": "HERE"}).replace(b'"HERE"', text.encode())


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (structured(time="2026-11-30T12:00:00Z", sequence="7"), []),
        (
            structured(time="2026-11-30T12:00:00Z", sequence="7"),
            [("content-type", b"application/cloudevents+json; charset=utf-8")],
        ),
        (json.dumps(CALL).encode(), binary(time="2026-11-30T12:00:00Z", sequence="7")),
        (json.dumps(CALL).encode(), [(n.upper(), v) for n, v in binary(time="2026-11-30T12:00:00Z", sequence="7")]),
    ],
    ids=["structured", "structured with content type", "binary", "binary, header names in capitals"],
)
def test_one_call_gives_the_same_facts_in_both_modes(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    run_id, facts = read_record(record(value, headers=headers), settings=SETTINGS)
    assert run_id == "r"
    assert (facts.kind, facts.offset, facts.sequence, facts.time) == ("started", 1042, 7, 1_796_040_000_000)
    assert facts.partition == RunPartition(CALLS, 3)
    assert facts.key is not None
    assert facts.key[0] == "read"


@pytest.mark.parametrize(("timestamp", "time"), [(5, 5), (-1, 0), (None, 0)])
def test_the_time_of_the_record_stands_in_for_a_missing_one(timestamp: int | None, time: int) -> None:
    assert read_record(record(structured(), timestamp=timestamp), settings=SETTINGS)[1].time == time


def test_a_compaction_belongs_to_the_partition_of_its_run_on_the_tool_calls_topic() -> None:
    value = structured(COMPACTION, {"run_id": "r", "will_retry": True})
    _, facts = read_record(record(value, topic=COMPACTIONS), settings=SETTINGS)
    assert (facts.kind, facts.arms, facts.partition) == ("compaction", True, RunPartition(CALLS, 3))


@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', "1" * 5000, "1e999", "[" * 200 + "]" * 200, "null", '{"a": 1, "a": 2}', '"\\u0000"'],
    ids=["lone surrogate", "huge integer", "huge double", "200 levels", "null", "equal keys", "NUL"],
)
def test_odd_parameters_that_are_json_are_read(text: str) -> None:
    assert read_record(record(with_params(text)), settings=SETTINGS)[1].key is not None


BATCH = [("content-type", b"application/cloudevents-batch+json")]
FAULTS: dict[str, tuple[str, Record]] = {
    "no value": ("empty", record(None)),
    "empty value": ("empty", record(b"")),
    "too large": ("too_large", record(with_params('"' + "x" * 200_000 + '"'))),
    "text": ("not_json", record(b"SECRET hello")),
    "cut off": ("not_json", record(structured()[:-1])),
    "two values": ("not_json", record(structured() * 2)),
    "byte order mark": ("not_json", record(b"\xef\xbb\xbf" + structured())),
    "binary junk": ("not_json", record(bytes(range(256)))),
    "invalid UTF-8": ("not_json", record(structured().replace(b"Read", b"SECRET\xff"))),
    "NaN": ("not_json", record(with_params("NaN"))),
    "Infinity": ("not_json", record(with_params("-Infinity"))),
    "99 000 levels": ("not_json", record(with_params("[" * 99_000 + "]" * 99_000))),
    "list": ("not_cloudevent", record(b'["SECRET"]')),
    "no attributes": ("not_cloudevent", record(b'{"SECRET": 1}')),
    "no id": ("not_cloudevent", record(structured(id=None))),
    "another version": ("not_cloudevent", record(structured(specversion="SECRET"))),
    "sequence is a number": ("not_cloudevent", record(structured(sequence=7))),
    "sequence too large": ("not_cloudevent", record(structured(sequence="9" * 19 + "9"))),
    "time without offset": ("not_cloudevent", record(structured(time="2026-11-30T12:00:00"))),
    "data_base64": ("not_cloudevent", record(structured(data_base64="U0VDUkVU"))),
    "batch": ("not_cloudevent", record(b"[" + structured() + b"]", headers=BATCH)),
    "header is not text": ("not_cloudevent", record(b"{}", headers=[*binary(), ("ce_id", b"\xff")])),
    "binary without source": ("not_cloudevent", record(b"{}", headers=[("ce_specversion", b"1.0"), ("ce_id", b"1")])),
    "unknown type": ("unknown_type", record(structured("dev.SECRET"))),
    "call among compactions": ("wrong_topic", record(structured(), topic=COMPACTIONS)),
    "compaction among calls": ("wrong_topic", record(structured(COMPACTION, {"run_id": "r", "will_retry": True}))),
    "no data": ("invalid_data", record(structured(data=None))),
    "data is text": ("invalid_data", record(structured(data="SECRET"))),
    "no run id": ("invalid_data", record(structured(data={"tool": "SECRET", "params": {}}))),
    "run id is a number": ("invalid_data", record(structured(data={**CALL, "run_id": 1}))),
    "run id too long": ("invalid_data", record(structured(data={**CALL, "run_id": "r" * 1025}))),
    "no parameters": ("invalid_data", record(structured(data={"run_id": "r", "tool": "SECRET"}))),
    "hash is none": ("invalid_data", record(structured(data={**CALL, "args_hash": "SECRET"}))),
    "300 levels": ("invalid_data", record(with_params("[" * 300 + "]" * 300))),
    "will_retry missing": ("invalid_data", record(structured(COMPACTION, {"run_id": "r"}), topic=COMPACTIONS)),
    "lone surrogate in the run id": ("invalid_data", record(structured(data={**CALL, "run_id": "\ud800"}))),
    "no key": ("key_mismatch", record(structured(), key=None)),
    "another key": ("key_mismatch", record(structured(), key=b"SECRET")),
    "end of another run": ("key_mismatch", record(structured(ENDED, {"run_id": "SECRET"}))),
}


@pytest.mark.parametrize(("code", "bad"), FAULTS.values(), ids=FAULTS)
def test_each_fault_has_its_code_and_tells_nothing_of_the_content(code: str, bad: Record) -> None:
    with pytest.raises(InvalidEventError) as caught:
        read_record(bad, settings=SETTINGS)
    assert caught.value.code == code
    assert str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_dead_letter_is_the_record_as_it_came_and_then_why_and_where_from() -> None:
    headers = [("loopwarden.error.code", b"older"), ("x", b"\xff"), ("x", b"")]
    letter = dead_letter(
        record(b"\x00junk", key=None, headers=headers), InvalidEventError("not_json", "not JSON: änderung"), group="g"
    )
    assert (letter.key, letter.value, letter.timestamp_ms) == (None, b"\x00junk", 1_700_000_000_000)
    assert list(letter.headers[:3]) == headers
    added = dict(letter.headers[3:])
    assert len(added) == len(letter.headers) - 3
    assert added.pop("loopwarden.error.time").endswith(b"Z")
    assert added == {
        "loopwarden.error.code": b"not_json",
        "loopwarden.error.message": "not JSON: änderung".encode(),
        "loopwarden.error.topic": CALLS.encode(),
        "loopwarden.error.partition": b"3",
        "loopwarden.error.offset": b"1042",
        "loopwarden.error.group": b"g",
    }
