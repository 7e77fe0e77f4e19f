"""Idle runs are forgotten, whether a worker has looked meanwhile or not."""

import asyncio
from typing import Any

import pytest

from schemas.topics import partition_of
from streams.processor.partition_policy import POLICY_KEY


def at(run: Any, seconds: int) -> None:
    """Have the run go on at a time, in seconds after the time of other runs."""
    run.clock = seconds * 1000


async def live_keys(lab: Any, partition: int) -> set[bytes]:
    latest = {record.key: record.value for record in await lab.records(f"{lab.settings.group}-runs-changelog", partition)}
    return {key for key, value in latest.items() if value is not None and key != POLICY_KEY}


@pytest.mark.broker
async def test_a_run_without_events_is_released_and_dropped_when_its_time_to_live_is_over(lab: Any) -> None:
    await lab.create()
    idle = lab.run("idle")
    partition = partition_of("idle", 2)
    busy = next(lab.run(f"busy-{number}") for number in range(9) if partition_of(f"busy-{number}", 2) == partition)
    worker = lab.worker(run_ttl=60.0)
    await lab.publish(idle.loop(21))
    await lab.committed(worker)
    at(busy, 120)
    async with asyncio.timeout(60):
        while b"idle" in await live_keys(lab, partition) or not await live_keys(lab, partition):
            await lab.publish(busy.loop(1, result="news"))
            await lab.committed(worker)
    assert await live_keys(lab, partition) == {busy.run_id.encode()}
    said = [(decision.action, decision.reason) for decision in await lab.decisions() if decision.run_id == "idle"]
    assert said[-1] == ("release", "changed")
    at(idle, 130)
    await lab.publish(idle.loop(21))
    await lab.committed(worker)
    counts = [decision.count for decision in await lab.decisions() if decision.run_id == "idle" and decision.action == "block"]
    assert counts[-1] == 21, "it counts from the start again"


@pytest.mark.broker
async def test_an_event_after_the_time_to_live_starts_the_run_afresh_though_nobody_looked(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    worker = lab.worker(run_ttl=3600.0)
    await lab.publish(run.loop(15))
    at(run, 7200)
    await lab.publish(run.loop(15))
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert [decision.count for decision in decisions if decision.action == "warn"] == [10, 10]
    assert "block" not in {decision.action for decision in decisions}
