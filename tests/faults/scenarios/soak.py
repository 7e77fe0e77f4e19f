"""Runs that come and go, by `run.ended` and by their time to live: memory and table stay as they are."""

import time
from collections.abc import Callable, Iterator

from tests.faults.catalogue import Bench, fault
from tests.faults.checking import Differences
from tests.faults.making.worker_processes import Worker
from tests.faults.scene import PARTITIONS, FaultError, Scene
from tests.faults.workload import Input, RunEvents
from tests.faults.workload.events import EPOCH_MS

#: Runs published before the worker is waited for.
PORTION = 5_000

#: Growth of the resident memory from a fifth of the runs to their end that counts as flat: the allocator's own.
FLAT_MIB = 30.0

#: Event time between two runs, and the time to live, in the soak without run.ended: 400 runs are alive at a time.
BETWEEN_RUNS_MS = 25
TIME_TO_LIVE = 10.0


def _short_runs(first: int, count: int, *, ending: bool) -> Iterator[Input]:
    for number in range(first, first + count):
        run = RunEvents(f"short-{number:08d}", PARTITIONS, began_ms=EPOCH_MS + number * BETWEEN_RUNS_MS)
        run.call("read", {"n": number}, "ok")
        if ending:
            run.ended()
        yield from run.made


async def _soak(bench: Bench, scene: Scene, worker: Worker, *, runs: int, ending: bool) -> None:
    """Publish short runs in portions, and look at the worker's memory after each."""
    held: list[float] = []
    began = time.monotonic()
    for first in range(0, runs, PORTION):
        await scene.publish(list(_short_runs(first, PORTION, ending=ending)))
        await scene.until_committed(patience=300)
        held.append(worker.resident_bytes / 2**20)
    at_a_fifth, at_the_end = held[len(held) // 5], held[-1]
    took = time.monotonic() - began
    bench.tally.times += runs
    bench.tally.note(f"{took:.0f} s, {at_a_fifth:.0f} MiB after a fifth, {at_the_end:.0f} MiB at the end")
    if at_the_end - at_a_fifth > FLAT_MIB:
        raise FaultError(f"the worker grew from {at_a_fifth:.0f} to {at_the_end:.0f} MiB: {[round(each) for each in held]}")


async def _until_states(scene: Scene, enough: Callable[[int], bool]) -> int:
    """Wait until the changelog is down to so many states, and return their number."""
    began = time.monotonic()
    while not enough(left := await scene.states_left()):
        if time.monotonic() - began > 60:
            raise scene.failure(f"{left} states are left")
    return left


@fault("soak: runs that end")
async def ending(bench: Bench) -> None:
    """Each run ends: no state is left of any, not even a stub."""
    async with bench.scene() as scene:
        worker = scene.start_worker()
        await _soak(bench, scene, worker, runs=bench.choose(quick=10_000, ci=40_000, long=1_000_000), ending=True)
        left = await _until_states(scene, lambda left: left == 0)
        bench.tally.add(Differences(extra=left))


@fault("soak: runs that fall silent")
async def falling_silent(bench: Bench) -> None:
    """No run ends; those that have had no event for their time to live are forgotten."""
    async with bench.scene(settings={"run_ttl": TIME_TO_LIVE}) as scene:
        worker = scene.start_worker()
        await _soak(bench, scene, worker, runs=bench.choose(quick=10_000, ci=20_000, long=1_000_000), ending=False)
        alive = TIME_TO_LIVE * 1000 / BETWEEN_RUNS_MS
        left = await _until_states(scene, lambda left: left <= 1.1 * alive)
        bench.tally.note(f"{left} states left")
        bench.tally.add(Differences(missing=max(0, round(alive * 0.9) - left)))
