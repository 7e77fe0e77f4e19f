"""Writes that the broker refuses, cannot do, or takes too long for."""

import asyncio
import time

from tests.faults.catalogue import Bench, fault
from tests.faults.making.plan import FaultPlan
from tests.faults.making.proxy import Proxy
from tests.faults.scene import PARTITIONS, FaultError, Scene
from tests.faults.workload import Input, RunEvents, make_workload

#: Seconds after which a worker has given up a write for certain (`PRODUCER_TIMEOUT` is 60) and ended.
GIVEN_UP_WITHIN = 100.0

#: MiB that a worker may hold whatever waits in front of its producer.
LARGEST_WORKER = 400


async def _ends_saying(scene: Scene, text: str) -> None:
    """Wait until the only worker has ended with exit code 1 and a log that says this."""
    (worker,) = scene.workers
    code = await scene.until_ended(worker, patience=GIVEN_UP_WITHIN)
    if code != 1 or text not in worker.log_text():
        raise scene.failure(f"the worker ended with exit code {code}; its log must say {text!r}")


async def _goes_on(bench: Bench, scene: Scene) -> None:
    """Start another worker and judge what it comes to."""
    began = time.monotonic()
    scene.start_worker()
    await scene.until_committed()
    bench.tally.recovered(time.monotonic() - began)
    bench.tally.add(await scene.verdict())


@fault("record too large for its topic", brokers=["kafka"], in_pytest=("kafka",))
async def too_large(bench: Bench) -> None:
    """A dead letter that its topic refuses: the worker names the setting and ends; nothing is committed over it."""
    async with bench.scene() as scene:
        letters = scene.settings.topics.dead_letters(scene.settings.topics.tool_calls)
        await scene.delete(letters)
        await scene.create_topics([letters], {"max.message.bytes": "2000"})
        workload = make_workload(seed=41, runs=30, calls=20, partitions=PARTITIONS)
        scene.start_worker()
        await scene.publish(workload)
        await scene.publish([Input("calls", number, b"key", b"x" * 5000) for number in range(PARTITIONS)])
        await _ends_saying(scene, "max.message.bytes")
        await scene.delete(letters)
        await scene.create_topics([letters])
        await _goes_on(bench, scene)


@fault("topic deleted under a worker", brokers=["kafka"])
async def topic_deleted(bench: Bench) -> None:
    """The decisions topic goes while the worker runs: it names the topic and ends; with the topic back, all is decided."""
    async with bench.scene() as scene:
        decisions = scene.settings.topics.decisions
        worker = scene.start_worker()
        await scene.until_taken_over(worker)
        await scene.until(lambda: len(worker.log_events("policy in force")) >= PARTITIONS, "a policy is in force")
        await scene.delete(decisions)
        began = time.monotonic()
        await scene.publish(make_workload(seed=42, runs=30, calls=30, partitions=PARTITIONS))
        await _ends_saying(scene, decisions)
        bench.tally.note(f"the worker ended after {time.monotonic() - began:.0f} s")
        await scene.create_topics([decisions])
        await _goes_on(bench, scene)


@fault("no room in the producer (20 kB/s)")
async def no_room(bench: Bench) -> None:
    """Far more is decided than gets through to the broker: what waits is bounded, and comes through in the end."""
    proxy = Proxy(bench.broker.port, bytes_per_second=20_000)
    loops = [RunEvents(f"loop-{number}", PARTITIONS) for number in range(60)]
    for run in loops:
        for _ in range(bench.choose(quick=40, ci=80, long=400)):
            run.call("read", {"path": "a.txt"}, "the same")
    records = [event for events in zip(*(run.made for run in loops), strict=True) for event in events]
    async with proxy, bench.scene() as scene:
        worker = scene.start_worker(FaultPlan(connect_to={bench.broker.port: proxy.port}))
        await scene.until_taken_over(worker)
        await scene.publish(records)
        await asyncio.sleep(bench.choose(quick=5, ci=15, long=45))  # less than a write may take, more than a session
        held = worker.peak_resident_bytes / 2**20
        proxy.bytes_per_second = None
        began = time.monotonic()
        await scene.until_committed(supervise=True)
        bench.tally.recovered(time.monotonic() - began)
        bench.tally.note(f"worker {held:.0f} MiB, {'stayed' if worker.alive else 'had to be started again'}")
        bench.tally.add(await scene.verdict())
        if held > LARGEST_WORKER:
            raise FaultError(f"the worker held {held:.0f} MiB")
