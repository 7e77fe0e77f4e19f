"""A batch that fails or is cancelled half-way leaves no state that is ahead of its decisions."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from faust.types import TP

from schemas.policy import PolicyDocument
from schemas.policy_records import PublishedPolicies
from schemas.settings import Settings
from streams.processor import dead_letters, run_processor
from streams.processor.partition_policy import POLICY_KEY, PartitionPolicy, encode
from streams.processor.run_processor import RunProcessor

POLICY = {"tools": {"loopDetection": {"enabled": True}}}

#: Equal calls with equal results, enough for a decision.
CALLS = 40


def value(kind: str, number: int) -> bytes:
    result = b', "result": "same"' if kind == "finished" else b""
    return (
        b'{"specversion": "1.0", "id": "%s%d", "source": "/t", "type": "dev.loopwarden.tool-call.%s.v1",'
        b' "data": {"run_id": "r", "tool": "read", "params": {}%s}}' % (kind.encode(), number, kind.encode(), result)
    )


class Table:
    """Keeps what is written."""

    def __init__(self) -> None:
        in_force = PartitionPolicy(policy=POLICY, tool_calls_offset=0, compactions_offset=0, announced=True, judged=True)
        self.before = {POLICY_KEY: encode(in_force)}
        self.written: dict[bytes, bytes | None] = {}

    def get_raw(self, partition: int, key: bytes) -> bytes | None:
        return self.written.get(key, self.before.get(key))

    async def put_many(self, partition: int, changes: dict[bytes, bytes | None]) -> None:
        self.written.update(changes)


def looping_batch() -> Any:
    topic = Settings().topics.tool_calls
    values = [value(kind, number) for number in range(CALLS) for kind in ("started", "finished")]
    records = [ConsumerRecord(topic, 0, place, 0, 0, b"r", one, None, 1, len(one), ()) for place, one in enumerate(values)]
    return SimpleNamespace(
        topic=topic,
        partition=0,
        records=records,
        last_offset=records[-1].offset,
        ensure_owned=lambda: None,
        processed=lambda: None,
        done=lambda: None,
    )


@pytest.mark.parametrize("end", [asyncio.CancelledError(), RuntimeError("no answer")], ids=["cancelled", "failed"])
async def test_a_release_after_an_interrupted_batch_writes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    async def interrupted(*_: Any) -> None:
        raise end

    async def sent(*_: Any) -> None:
        return None

    table: Any = Table()
    consumer = SimpleNamespace(lease=SimpleNamespace(held=True), committed_offset=lambda tp: 0)
    app = SimpleNamespace(consumer=consumer, should_stop=False)
    processor = RunProcessor(app=app, table=table, settings=Settings(commit_interval=600.0), partitions=1)
    processor.policies.want(PublishedPolicies(PolicyDocument.from_mapping(POLICY)))
    await processor.take_over(frozenset({TP(Settings().topics.tool_calls, 0)}))
    monkeypatch.setattr(run_processor, "send_batches", interrupted)
    monkeypatch.setattr(dead_letters, "send_batches", sent)
    with pytest.raises(type(end)):
        await processor.process(looping_batch())
    await processor.release(frozenset())
    assert table.written == {}
    monkeypatch.setattr(run_processor, "send_batches", sent)
    await processor.process(looping_batch())
    await processor.release(frozenset())
    assert list(table.written) == [b"r"]


@pytest.mark.parametrize("stops", [True, False], ids=["stops", "gives partitions back"])
async def test_nothing_is_written_between_batches_after_the_last_release_of_a_worker_that_stops(stops: bool) -> None:
    """The timers may have a turn more, and the producer is gone by then: here they have runs left to be judged again."""
    table: Any = Table()
    table.before = {POLICY_KEY: encode(PartitionPolicy(policy=POLICY, tool_calls_offset=0, compactions_offset=0, announced=True))}
    table.keys_of = lambda partition: iter(())
    consumer = SimpleNamespace(lease=SimpleNamespace(held=True), committed_offset=lambda tp: 0)
    app = SimpleNamespace(consumer=consumer, should_stop=stops)
    processor = RunProcessor(app=app, table=table, settings=Settings(commit_interval=600.0), partitions=1)
    processor.policies.want(PublishedPolicies(PolicyDocument.from_mapping(POLICY)))
    await processor.take_over(frozenset({TP(Settings().topics.tool_calls, 0)}))
    await processor.release(frozenset())
    assert await processor.judge_slice_again() is not stops
    assert (table.written == {}) is stops
