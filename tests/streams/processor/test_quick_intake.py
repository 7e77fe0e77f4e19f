"""The quick way to facts reads what the models read, and leaves the rest to them."""

import json
import random
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st

from schemas.cloudevents import InvalidEventError
from schemas.settings import Settings
from streams.detection.facts import Facts, RunPartition
from streams.processor.intake import facts_by_models
from streams.processor.quick_intake import quick_facts
from tests.facts import as_dict

SETTINGS = Settings()
TOPIC = SETTINGS.topics.tool_calls
PARTITION = RunPartition(TOPIC, 3)
HASH = "0123456789abcdef" * 2


def event(kind: str = "finished", *, attributes: Any = (), **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "1",
        "source": "/t",
        "type": f"dev.loopwarden.tool-call.{kind}.v1",
        "time": "2026-11-30T12:00:59.250Z",
        "sequence": "0000000000000000007",
        **dict(attributes),
        "data": {"run_id": "r", "tool": "Bash", "args_hash": HASH, **data},
    }


def record(value: bytes, *, key: bytes = b"r", headers: tuple[tuple[str, bytes], ...] = ()) -> ConsumerRecord:
    return ConsumerRecord(TOPIC, 3, 42, 1_790_000_000_000, 0, key, value, None, len(key), len(value), headers)


def quickly(found: ConsumerRecord) -> tuple[str, Facts] | None:
    return quick_facts(found, partition=PARTITION, max_bytes=SETTINGS.max_event_bytes)


def by_models(found: ConsumerRecord) -> tuple[str, Facts] | str:
    try:
        return facts_by_models(found, topic=TOPIC, partition=PARTITION, settings=SETTINGS)
    except InvalidEventError as error:
        return error.code


def agree(value: bytes, **of_record: Any) -> bool:
    """Check that the quick way says what the models say, if anything; return whether it said anything."""
    found = record(value, **of_record)
    quick = quickly(found)
    if quick is None:
        return False
    run_id, facts = quick
    slow = by_models(found)
    assert not isinstance(slow, str), slow
    assert (run_id, as_dict(facts)) == (slow[0], as_dict(slow[1]))
    return True


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"outcome_hash": HASH},
        {"outcome_hash": HASH, "unknown_tool": "Foo", "is_error": True, "poll": True},
        {"session_id": "s", "agent_id": "a", "parent_run_id": "p", "round": 3, "call_id": "c", "preview": "x", "later": [1]},
        {"params": {"cmd": "ls"}, "result": {"exit": 0}},
        {"params": None, "error": "Tool foo not found"},
        {"result": None, "error": None},
    ],
)
@pytest.mark.parametrize("kind", ["started", "finished"])
def test_events_as_publishers_write_them_are_read_quickly(kind: str, data: dict[str, Any]) -> None:
    assert agree(json.dumps(event(kind, **data)).encode())


def test_headers_of_others_are_no_hindrance_and_those_of_cloudevents_are_left_to_the_models() -> None:
    value = json.dumps(event()).encode()
    assert agree(value, headers=(("traceparent", b"00"),))
    assert not agree(value, headers=(("ce_specversion", b"1.0"),))
    assert not agree(value, headers=(("Content-Type", b"application/cloudevents+json"),))


ODD: list[Any] = [
    None,
    "",
    "x",
    "X" * 32,
    HASH,
    HASH.upper(),
    HASH[:31],
    HASH + "0",
    "x" * 257,
    "x" * 1025,
    "é\ud800",
    0,
    -1,
    3.0,
    2**70,
    True,
    [],
    {},
    [[[]]],
    "2026-11-30T12:00:00Z",
    "2026-11-30T24:00:00.000Z",
    "2026-11-30t12:00:61.000Z",
    "2026-13-30T12:00:00.000Z",
    "1969-12-31T23:59:59.999Z",
    "0" * 64 + "1",
    "9223372036854775807",
    "9223372036854775808",
    "१२",
    "1.0",
    "dev.loopwarden.run.ended.v1",
    "dev.loopwarden.tool-call.started.v1",
]
FIELDS = (
    "run_id",
    "tool",
    "call_id",
    "session_id",
    "agent_id",
    "parent_run_id",
    "round",
    "args_hash",
    "poll",
    "outcome_hash",
    "unknown_tool",
    "is_error",
    "preview",
    "lost_events",
    "params",
    "result",
    "error",
    "unknown",
)
ATTRIBUTES = ("specversion", "id", "source", "type", "time", "sequence", "data_base64", "data", "datacontenttype", "unknown")


@given(
    kind=st.sampled_from(["started", "finished", "blocked"]),
    data=st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), max_size=4),
    attributes=st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(ODD), max_size=2),
    dropped=st.sets(st.sampled_from([*FIELDS, *ATTRIBUTES]), max_size=2),
)
def test_odd_values_in_any_field_are_read_as_the_models_read_them(
    kind: str, data: dict[str, Any], attributes: dict[str, Any], dropped: set[str]
) -> None:
    made = event(kind, **data)
    made.update(attributes)
    for name in dropped:
        made.pop(name, None)
        if isinstance(made.get("data"), dict):
            made["data"].pop(name, None)
    agree(json.dumps(made).encode())


@given(
    start=st.sampled_from(
        ["2026-11-30T12:00:00", "2026-11-30T121000,1", "2026-11-30T120000.1", "2026-11-30T12:00+01", "2026-W49-1T12:10:00"]
    ),
    edits=st.lists(st.tuples(st.integers(0, 18), st.sampled_from("0123456789-:.,+TtWZ ")), max_size=3),
    end=st.sampled_from([".123Z", ".12Z", "Z", ".123456Z", ".123+00:00", ",123Z", ".\u0661\u0662\u0663Z"]),
)
def test_times_in_any_form_are_read_as_the_models_read_them(start: str, edits: list[tuple[int, str]], end: str) -> None:
    time = list(start)
    for place, character in edits:
        time[place] = character
    agree(json.dumps(event(attributes={"time": "".join(time) + end})).encode())


@given(seed=st.integers(0, 2**32), edits=st.integers(1, 4))
def test_damaged_bytes_are_read_as_the_models_read_them(seed: int, edits: int) -> None:
    rng = random.Random(seed)
    value = bytearray(json.dumps(event(unknown="é" + "x" * 9, outcome_hash=HASH), ensure_ascii=False).encode())
    for _ in range(edits):
        at = rng.randrange(len(value))
        match rng.randrange(3):
            case 0:
                value[at] = rng.randrange(256)
            case 1:
                del value[at : at + rng.randrange(4)]
            case _:
                value[at:at] = rng.choice([b'"', b"\\", b"\xff", b"{", b"}", b",", b"1e999", b"\\ud800", b"\x00", b"[" * 300])
    agree(bytes(value))


def test_equal_keys_count_as_the_last_one_in_both() -> None:
    assert agree(json.dumps(event()).encode().replace(b'"tool": "Bash"', b'"tool": "a", "tool": "b"'))
    agree(json.dumps(event()).encode().replace(b'"tool": "Bash"', b'"tool": 3, "tool": "b"'))
