"""Records that are no events lie on the dead-letter topic as they came, and what comes after them is judged."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer

from schemas.events import CompactionCompleted, ToolCallStarted
from schemas.topics import partition_of

pytestmark = pytest.mark.broker

PARTITIONS = 2
RUN = "run"
KEY = RUN.encode()
#: Stands in every bad record that can hold it, and must stand in no message.
SECRET = "hunter2"
REASONS = ("code", "message", "topic", "partition", "offset", "group", "time")


class Bad(NamedTuple):
    """A record that a worker must not read, and the code that says why."""

    code: str
    value: bytes | None
    key: bytes | None = KEY
    headers: tuple[tuple[str, bytes | None], ...] = ()


def event(data: Any, *, event_type: str = "dev.loopwarden.tool-call.started.v1") -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": f"/{SECRET}", "type": event_type, "data": data}


def wire(data: Any, **attributes: Any) -> bytes:
    return json.dumps(event(data, **attributes)).encode()


def call(params: str = '"hunter2"', *, run_id: str = RUN) -> bytes:
    """Make a call with the given JSON text as its parameters."""
    return wire({"run_id": run_id, "tool": SECRET, "params": "HERE"}).replace(b'"HERE"', params.encode())


BATCH = (("content-type", b"application/cloudevents-batch+json"),)

#: Bad wherever they are; on both topics.
BAD_ANYWHERE = [
    Bad("not_json", f"{SECRET}: not JSON".encode()),
    Bad("not_json", call()[:-1]),
    Bad("not_json", bytes(range(256)) * 4),
    Bad("not_json", call().replace(b'"hunter2"}', b'"hunter2\xff"}')),
    Bad("not_json", call("NaN")),
    Bad("not_json", b"[" * 100_000 + b"]" * 100_000),
    Bad("not_json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    Bad("not_json", call("[" * 100_000 + "]" * 100_000)),
    Bad("not_cloudevent", json.dumps({"password": SECRET}).encode()),
    Bad("not_cloudevent", json.dumps([SECRET]).encode(), None),
    Bad("not_cloudevent", b"[" + call() + b"]", headers=BATCH),
    Bad("not_cloudevent", b"{}", headers=(("ce_specversion", b"1.0"), ("ce_id", b"\xff\xfe"), ("trace", b"\x00\xff"))),
    Bad("unknown_type", wire({"run_id": RUN}, event_type=f"dev.{SECRET}.v1"), headers=(("loopwarden.error.code", b"older"),)),
    Bad("empty", b""),
    Bad("empty", None, headers=(("trace", None),)),
    Bad("too_large", call('"' + "x" * 2_000_000 + '"')),
]
BAD_CALLS = [
    *BAD_ANYWHERE,
    Bad("invalid_data", wire({"run_id": RUN, "tool": [SECRET], "params": {}})),
    Bad("invalid_data", wire({"run_id": 7, "tool": SECRET, "params": {}})),
    Bad("invalid_data", wire({"tool": SECRET, "params": {}})),
    Bad("invalid_data", wire(SECRET)),
    Bad("invalid_data", call("[" * 300 + "]" * 300)),
    Bad("key_mismatch", call(run_id=SECRET)),
    Bad("key_mismatch", call(), None),
    Bad("key_mismatch", call(), b""),
    Bad("key_mismatch", call(), b"\xff\xfe"),
    Bad("wrong_topic", wire({"run_id": RUN, "will_retry": True}, event_type=CompactionCompleted.event_type())),
]
BAD_COMPACTIONS = [
    *BAD_ANYWHERE,
    Bad("wrong_topic", call()),
    Bad("invalid_data", wire({"run_id": RUN, "will_retry": SECRET}, event_type=CompactionCompleted.event_type())),
    Bad("key_mismatch", wire({"run_id": SECRET, "will_retry": True}, event_type=CompactionCompleted.event_type())),
]

#: Odd, and good: (value, headers), each a call that goes ahead.
ODD_CALLS: list[tuple[bytes, tuple[tuple[str, bytes], ...]]] = [
    (call('"\\ud800 and \\udfff"'), ()),
    (call("1" * 400), ()),
    (call("-" + "9" * 5000), ()),
    (call("[" * 200 + "]" * 200), ()),
    (
        json.dumps({"run_id": RUN, "tool": "read", "params": {}}).encode(),
        (
            ("content-type", b"application/json"),
            ("ce_specversion", b"1.0"),
            ("ce_id", b"1"),
            ("ce_source", b"/t"),
            ("ce_type", ToolCallStarted.event_type().encode()),
        ),
    ),
]


async def send(lab: Any, topic: str, records: list[Bad]) -> list[int]:
    """Send records to the partition of the run, and return their offsets."""
    partition = partition_of(RUN, PARTITIONS)
    producer = AIOKafkaProducer(bootstrap_servers=lab.settings.bootstrap_servers, max_request_size=8 << 20)
    await producer.start()
    try:
        sent = [
            await producer.send_and_wait(topic, bad.value, key=bad.key, headers=list(bad.headers), partition=partition)
            for bad in records
        ]
    finally:
        await producer.stop()
    lab.ends[topic, partition] += len(records)
    return [record.offset for record in sent]


async def check_letters(lab: Any, topic: str, sent: list[tuple[int, Bad]]) -> None:
    """Assert that the dead-letter topic holds just these records, in order, each with the reason why."""
    partition = partition_of(RUN, PARTITIONS)
    letters = await lab.records(lab.settings.topics.dead_letters(topic), partition)
    assert await lab.records(lab.settings.topics.dead_letters(topic), 1 - partition) == []
    assert len(letters) == len(sent)
    for letter, (offset, bad) in zip(letters, sent, strict=True):
        assert letter.key == bad.key, bad.code
        assert letter.value == bad.value, bad.code
        assert tuple(letter.headers[: len(bad.headers)]) == bad.headers
        added = letter.headers[len(bad.headers) :]
        assert [name for name, _ in added] == [f"loopwarden.error.{name}" for name in REASONS]
        code, message, *place, group, time = (value.decode() for _, value in added)
        assert (code, place, group) == (bad.code, [topic, str(partition), str(offset)], lab.settings.group), message
        assert abs(datetime.now(UTC) - datetime.fromisoformat(time)) < timedelta(minutes=2)
        assert message
        assert SECRET not in message
        assert len(message) < 1000


async def test_bad_records_are_kept_byte_for_byte_and_the_events_after_them_are_judged(lab: Any) -> None:
    await lab.create(max_event_bytes=4 << 20)
    topics = lab.settings.topics
    worker = lab.worker()
    odd = [Bad("", value, KEY, headers) for value, headers in ODD_CALLS]
    calls = [*BAD_CALLS, *odd, BAD_CALLS[0]]
    call_offsets = await send(lab, topics.tool_calls, calls)
    compaction_offsets = await send(lab, topics.compactions, BAD_COMPACTIONS)
    run = lab.run(RUN)
    await lab.publish([*run.loop(21), run.event(CompactionCompleted, will_retry=True), *run.loop(3)])
    await lab.committed(worker)
    await check_letters(
        lab, topics.tool_calls, [(offset, bad) for offset, bad in zip(call_offsets, calls, strict=True) if bad.code]
    )
    await check_letters(lab, topics.compactions, list(zip(compaction_offsets, BAD_COMPACTIONS, strict=True)))
    decisions = [decision for decision in await lab.decisions() if decision.run_id == RUN]
    assert {decision.action for decision in decisions} >= {"warn", "block", "abort"}
    assert {decision.target.tool for decision in decisions if decision.action == "block"} == {"read"}
    log = (lab.folder / "worker.log").read_text()
    assert "dead-lettered" in log
    assert SECRET not in log
