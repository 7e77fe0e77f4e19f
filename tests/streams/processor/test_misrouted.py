"""Events in a wrong partition are sent on to their own, once."""

from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from schemas.topics import partition_of
from streams.intake.outgoing import OutgoingEvent
from streams.processor.misrouted import MISROUTED_HEADER

pytestmark = pytest.mark.broker


async def send(lab: Any, events: list[OutgoingEvent], *, partition: int, headers: list[tuple[str, bytes]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=lab.settings.bootstrap_servers)
    await producer.start()
    try:
        for event in events:
            await producer.send_and_wait(event.topic, event.value, key=event.key, partition=partition, headers=headers)
    finally:
        await producer.stop()


async def test_misrouted_events_are_judged_where_they_belong_and_each_is_sent_on_once(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    events = run.loop(21)
    right = partition_of(run.run_id, 2)
    wrong = 1 - right
    worker = lab.worker()
    await send(lab, events, partition=wrong, headers=[("trace", b"7")])
    blocked = await lab.decision(lambda decision: decision.action == "block" and decision.count == 21)
    assert (blocked.as_of.partition, blocked.since.offset) == (right, 0)
    await worker.wait_until_committed([(lab.settings.topics.tool_calls, number, len(events)) for number in (0, 1)])
    there = await lab.records(lab.settings.topics.tool_calls, right)
    assert [record.value for record in there] == [event.value for event in events]
    place = f"{lab.settings.topics.tool_calls}[{wrong}]@0"
    assert list(there[0].headers) == [("trace", b"7"), (MISROUTED_HEADER, place.encode())]


async def test_what_was_sent_on_and_is_in_a_wrong_partition_again_is_dead_lettered(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    [event] = run.call("read", {})
    wrong = 1 - partition_of(run.run_id, 2)
    worker = lab.worker()
    await send(lab, [event], partition=wrong, headers=[(MISROUTED_HEADER, b"t[0]@1")])
    await worker.wait_until_committed([(lab.settings.topics.tool_calls, wrong, 1)])
    [letter] = await lab.records(lab.settings.topics.dead_letters(lab.settings.topics.tool_calls), wrong)
    assert dict(letter.headers)["loopwarden.error.code"] == b"misrouted"
    assert letter.value == event.value
    assert await lab.records(lab.settings.topics.tool_calls, 1 - wrong) == []
