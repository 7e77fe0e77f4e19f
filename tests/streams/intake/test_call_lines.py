import json
from typing import Any

import pytest

from schemas.events import ToolCallFinished, ToolCallStarted, parse_event
from schemas.topics import Topics
from streams.intake.call_lines import events_of_calls
from streams.intake.outgoing import InvalidLineError, OutgoingEvent

NOW = 1_800_000_000_000


def convert(*calls: object, **options: Any) -> list[OutgoingEvent]:
    lines = [json.dumps(call).encode() for call in calls]
    return list(events_of_calls(lines, name="calls", topics=Topics(), max_event_bytes=10_000, now_ms=NOW, **options))


def call(**fields: object) -> dict[str, object]:
    return {"run": "r", "seq": 0, "tool": "exec", "args": {}, "result": "ok"} | fields


def pair(**fields: object) -> tuple[ToolCallStarted, ToolCallFinished]:
    models = [parse_event(event.value, key=event.key, max_bytes=10_000)[1] for event in convert(call(**fields))]
    started, finished = models
    assert isinstance(started, ToolCallStarted)
    assert isinstance(finished, ToolCallFinished)
    return started, finished


def test_each_call_gives_two_sequences() -> None:
    events = convert(call(seq=0), call(seq=7))
    assert [event.sequence for event in events] == [1, 2, 15, 16]
    assert {event.topic for event in events} == {Topics().tool_calls}


def test_equal_input_gives_equal_events() -> None:
    assert convert(call()) == convert(call())


@pytest.mark.parametrize(
    ("args", "params"),
    [('{"a": 1}', {"a": 1}), ("[1]", "[1]"), ("{oops", "{oops"), ("ls", "ls"), (None, None), ([1], [1]), ({"b": 2}, {"b": 2})],
)
def test_only_a_json_object_in_a_string_is_parsed(args: object, params: object) -> None:
    assert pair(args=args)[0].params == params


def test_a_failed_calls_result_is_its_error() -> None:
    _, finished = pair(result="boom", is_error=True)
    assert (finished.error, finished.has_result, finished.is_error) == ("boom", False, True)


def test_a_null_result_is_no_outcome() -> None:
    _, finished = pair(result=None, is_error=None)
    assert not finished.has_result
    assert not finished.has_error


def test_call_id_agent_and_prefix_are_passed_on() -> None:
    (event, _) = convert(call(call_id="c"), agent_id="owl", run_prefix="p-")
    _, data = parse_event(event.value, key=b"p-r", max_bytes=10_000)
    assert isinstance(data, ToolCallStarted)
    assert (data.call_id, data.agent_id, event.key) == ("c", "owl", b"p-r")


@pytest.mark.parametrize(
    ("ts", "milliseconds"),
    [
        ("2025-11-20T20:00:00.250Z", 1763668800250),
        ("2025-11-20T20:00:00", 1763668800000),
        ("2025-11-20T21:00:00+01:00", 1763668800000),
        (1763668800, 1763668800000),
        (1763668800.25, 1763668800250),
        (1763668800250, 1763668800250),
        (None, NOW),
    ],
)
def test_times_are_iso_or_seconds_or_milliseconds_or_now(ts: object, milliseconds: int) -> None:
    event, _ = convert(call(ts=ts))
    assert parse_event(event.value, key=event.key, max_bytes=10_000)[0].time == milliseconds


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "a call must be a JSON object"),
        ({"run": "r"}, "seq: Field required; tool: Field required"),
        (call(seq=-1), "seq: Input should be greater than or equal to 0"),
        (call(seq=2**62), "seq: Input should be less than or equal to 4611686018427387902"),
        (call(ts="soon"), "ts: must be an ISO 8601 time"),
        (call(ts=1e300), "ts: must be an ISO 8601 time"),
        (call(ts=True), "ts: must be an ISO 8601 time"),
        (call(run="\ud800"), "run: "),
        (call(result="x" * 20_000), "20"),
    ],
)
def test_a_bad_line_is_named_and_gives_nothing(bad: object, message: str) -> None:
    lines = [json.dumps(call()).encode(), b"\n", json.dumps(bad).encode()]
    events = events_of_calls(lines, name="f.jsonl", topics=Topics(), max_event_bytes=10_000)
    assert [next(events).sequence, next(events).sequence] == [1, 2]
    with pytest.raises(InvalidLineError) as caught:
        next(events)
    assert str(caught.value).startswith(f"f.jsonl:3: {message}")
