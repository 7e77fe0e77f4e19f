"""How long a worker takes from the start of its process to its first verdict."""

import time

from tests.faults.catalogue import Bench, fault
from tests.faults.scene import PARTITIONS, PATIENCE, FaultError, Scene
from tests.faults.workload.pulses import pulses

#: Seconds from the start of a worker's process to the first decision on the topic, with an empty table.
FIRST_VERDICT_WITHIN = 6.0


@fault("start of a worker to first verdict", in_pytest=("kafka",))
async def first_verdict(bench: Bench) -> None:
    """With an empty table and events that wait."""
    for _ in range(bench.choose(quick=1, ci=3, long=10)):
        async with bench.scene() as scene:
            await scene.publish(pulses(calls=40, partitions=PARTITIONS))
            took = await seconds_to_first_verdict(scene)
            await scene.until_committed()
            bench.tally.add(await scene.verdict())
            bench.tally.recovered(took)
    if bench.broker.kind == "kafka" and not bench.quick and min(bench.tally.recoveries) > FIRST_VERDICT_WITHIN:
        raise FaultError(f"first verdict after {min(bench.tally.recoveries):.1f} s, more than {FIRST_VERDICT_WITHIN:.0f} s")


async def seconds_to_first_verdict(scene: Scene) -> float:
    """Start a worker and return the seconds until the decisions topic has a new record."""
    before = await decisions_written(scene)
    began = time.monotonic()
    scene.start_worker()
    while await decisions_written(scene) == before:
        if time.monotonic() - began > PATIENCE:
            raise scene.failure(f"no verdict within {PATIENCE:.0f} s")
    return time.monotonic() - began


async def decisions_written(scene: Scene) -> int:
    """Return how many decisions there are; markers of policies have no key."""
    published = await scene.reader.read(scene.settings.topics.decisions, PARTITIONS)
    return sum(record.key is not None for records in published for record in records)
