"""Reading of input records: the same as the worker's, whatever comes."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import cloudevents
from schemas.cloudevents import InvalidEventError
from schemas.events import COMPACTION_EVENTS, TOOL_CALL_EVENTS
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit import InputReader, InputRecord
from streams.processor.intake import read_record

SETTINGS = Settings(max_event_bytes=4096)
TOPICS = SETTINGS.topics
HASH = "0123456789abcdef" * 2

_odd = st.sampled_from(
    [
        None,
        True,
        0,
        1.5,
        -1,
        2**70,
        "",
        "x",
        "x" * 257,
        "x" * 1025,
        "é" * 1024,
        [],
        {},
        HASH,
        HASH.upper(),
        HASH + "\n",
        " " + HASH[1:],
    ]
)
_fields: dict[str, st.SearchStrategy[Any]] = {
    "run_id": st.sampled_from(["r1", "läuft", "x" * 1024]),
    "session_id": st.sampled_from([None, "s1"]),
    "agent_id": st.sampled_from([None, "main"]),
    "round": st.sampled_from([None, 3, "three"]),
    "call_id": st.sampled_from([None, "c1"]),
    "tool": st.sampled_from(["Bash ", "read", "process", "\ufeffexec"]),
    "args_hash": st.just(HASH),
    "outcome_hash": st.just(HASH[::-1]),
    "unknown_tool": st.sampled_from([None, "Nope"]),
    "poll": st.sampled_from([None, True, False]),
    "reason": st.sampled_from(["loop", "other"]),
    "will_retry": st.booleans(),
    "tokens_before": st.sampled_from([None, 5]),
    "status": st.sampled_from([None, "done"]),
    "params": st.sampled_from([None, {"action": "poll"}]),
    "result": st.sampled_from([None, "fine"]),
    "error": st.sampled_from([None, "broken"]),
    "preview": st.sampled_from([None, "text"]),
    "unheard_of": st.just([1]),
}
_needed = {
    "started": ("run_id", "tool", "args_hash"),
    "finished": ("run_id", "tool", "args_hash", "outcome_hash"),
    "blocked": ("run_id", "tool", "args_hash", "reason"),
    "compaction": ("run_id", "will_retry"),
    "ended": ("run_id",),
}
_types = {
    "started": "dev.loopwarden.tool-call.started.v1",
    "finished": "dev.loopwarden.tool-call.finished.v1",
    "blocked": "dev.loopwarden.tool-call.blocked.v1",
    "compaction": "dev.loopwarden.compaction.completed.v1",
    "ended": "dev.loopwarden.run.ended.v1",
}


@st.composite
def records(draw: st.DrawFn) -> InputRecord:
    """Mostly valid records, with something odd in some of them."""
    kind = draw(st.sampled_from(sorted(_types)))
    optional = draw(st.sets(st.sampled_from(sorted(_fields)), max_size=4))
    data = {name: draw(_fields[name]) for name in sorted({*_needed[kind], *optional})}
    body: dict[str, Any] = {
        "specversion": "1.0",
        "type": _types[kind],
        "source": "/s",
        "id": "1",
        "time": draw(
            st.sampled_from(["2026-11-30T12:00:00.123Z", "2026-11-30t12:00:00.1234567+01:00", "2026-11-30T12:00:00Z", None])
        ),
        "sequence": draw(st.sampled_from(["0000000000000000007", "7", "9223372036854775807", None])),
        "data": data,
    }
    if draw(st.integers(0, 3)) == 0:
        where = draw(st.sampled_from([body, data]))
        where[draw(st.sampled_from(sorted(where)))] = draw(_odd)
    if draw(st.integers(0, 5)) == 0:
        del body[draw(st.sampled_from(sorted(body)))]
    if draw(st.integers(0, 9)) == 0:
        body["data_base64"] = "eA=="
    try:
        value = orjson.dumps(body)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits
        import json

        value = json.dumps(body).encode()
    if draw(st.integers(0, 9)) == 0:
        value = value.replace(
            b'"1.0"', draw(st.sampled_from([b'"1.0", "extra": "\xff"', b'"1.0", "extra": "\\ud800"', b'"1.0",']))
        )
    headers = draw(
        st.sampled_from(
            [
                (),
                (),
                (),
                (("traceparent", b"x"),),
                (("content-type", b"application/cloudevents+json"),),
                (("ce_specversion", b"1.0"),),
            ]
        )
    )
    topic = TOPICS.compactions if (kind == "compaction") != (draw(st.integers(0, 19)) == 0) else TOPICS.tool_calls
    key = data.get("run_id") if isinstance(data.get("run_id"), str) else "r1"
    return InputRecord(
        topic,
        0,
        draw(st.integers(0, 2**40)),
        draw(st.sampled_from([-1, 0, 1_800_000_000_000])),
        draw(st.sampled_from([str(key).encode(), str(key).encode(), b"other", None])),
        draw(st.sampled_from([value, value, value, value[:-1], b"", None])),
        headers,
    )


@given(records())
def test_every_record_is_read_as_the_worker_reads_it(record: InputRecord) -> None:
    reader = InputReader(settings=SETTINGS, partition=0, partitions=1)
    try:
        expected = read_record(record, settings=SETTINGS)  # type: ignore[arg-type]  # a Record that is not written to
    except InvalidEventError:
        assert reader.read(record) is None
        assert reader.dead_letters == 1
        return
    found = reader.read(record)
    assert found is not None
    assert (found.run_id, found.facts, found.timestamp) == (*expected, record.timestamp)


@pytest.mark.parametrize("models", [TOOL_CALL_EVENTS, COMPACTION_EVENTS])
def test_plain_events_take_the_fast_way(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.audit.inputs.read_record", None)  # the slow way would fail
    data = {"run_id": "r", "tool": "read", "args_hash": HASH, "outcome_hash": HASH, "reason": "loop", "will_retry": True}
    topic = TOPICS.tool_calls if models is TOOL_CALL_EVENTS else TOPICS.compactions
    for event_type in models:
        value = cloudevents.structured(
            event_type=event_type, source="/s", event_id="1", run_id="r", data=data, time=1, sequence=1
        )
        record = InputRecord(topic, 0, 5, 9, b"r", value)
        assert InputReader(settings=SETTINGS, partition=0, partitions=1).read(record) is not None


def test_an_event_of_another_partition_is_misrouted() -> None:
    away = next(name for name in map(str, range(99)) if partition_of(name, 4) != 0)
    value = cloudevents.structured(
        event_type="dev.loopwarden.run.ended.v1", source="/s", event_id="1", run_id=away, data={"run_id": away}
    )
    reader = InputReader(settings=SETTINGS, partition=0, partitions=4)
    assert reader.read(InputRecord(TOPICS.tool_calls, 0, 5, 9, away.encode(), value)) is None
    assert (reader.misrouted, reader.dead_letters) == (1, 0)
