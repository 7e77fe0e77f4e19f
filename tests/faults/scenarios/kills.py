"""Workers that end where they are: SIGKILL at named points and at random moments, SIGTERM, an exception."""

import asyncio
import random
import signal
import time
from collections.abc import Sequence
from itertools import cycle, islice

from tests.faults.catalogue import Bench, fault
from tests.faults.making.plan import POINTS, Action, FaultPlan
from tests.faults.making.worker_processes import KILLED
from tests.faults.scene import PARTITIONS
from tests.faults.workload import Input, make_workload

STORES = ("memory://", "rocksdb://")

#: Scenes side by side: most of their time goes by in waiting for the sessions of the dead.
LANES = 4

#: What pytest makes of all the points: between decisions and states, states and store, store and offsets, and in a write.
QUICK_POINTS = ("after-decisions", "before-store", "before-offsets", "during-states")

#: Events per second while workers are killed at random: so few that they are never done before the next kill.
RATE = 400.0


def pieces(workload: Sequence[Input], count: int) -> list[Sequence[Input]]:
    """Cut a workload into `count` pieces, in order."""
    size = -(-len(workload) // count)
    return [workload[start : start + size] for start in range(0, len(workload), size)]


async def _fail_at_points(bench: Bench, points: Sequence[str], *, action: Action, exit_code: int, store: str, seed: int) -> None:
    """Let one worker after the other fail at its point, then let a sound one finish."""
    rng = random.Random(seed)
    workload = make_workload(seed=seed, runs=30, calls=12 * (len(points) + 1), partitions=PARTITIONS)
    async with bench.scene(settings={"store": store}) as scene:
        *parts, last = pieces(workload, len(points) + 1)
        for point, part in zip(points, parts, strict=True):
            once = point.endswith(("offsets", "misrouted"))  # there may be one such write in a part
            plan = FaultPlan(point=point, action=action, passing=1 if once else rng.randint(1, 3))
            worker = scene.start_worker(plan)
            await scene.publish(part)
            found = await scene.until_ended(worker)
            if found != exit_code:
                raise scene.failure(f"the worker ended with exit code {found}, not with {exit_code}, at {point}")
        began = time.monotonic()
        scene.start_worker()
        await scene.publish(last)
        await scene.until_committed()
        recovery = time.monotonic() - began
        bench.tally.add(await scene.verdict(), times=len(points), recovery=recovery)


async def _in_lanes(bench: Bench, points: Sequence[str], *, action: Action, exit_code: int) -> None:
    lanes = [points[number::LANES] for number in range(LANES)]
    await asyncio.gather(
        *(
            _fail_at_points(bench, lane, action=action, exit_code=exit_code, store=STORES[number % 2], seed=number)
            for number, lane in enumerate(lanes)
            if lane
        )
    )


@fault("kill -9 at named points", in_pytest=("embedded", "kafka"))
async def kill_at_named_points(bench: Bench) -> None:
    """Before, in the middle of and after each awaited write: dead letters, decisions, states, store, offsets."""
    number = bench.choose(quick=len(QUICK_POINTS), ci=len(POINTS), long=7 * len(POINTS))
    points = list(islice(cycle(QUICK_POINTS if bench.quick else POINTS), number))
    await _in_lanes(bench, points, action="kill", exit_code=KILLED)


@fault("exception in the agent")
async def exception_in_the_agent(bench: Bench) -> None:
    """The worker ends with exit code 1, and the next one does what was not committed again."""
    points = [point for point in POINTS if "offsets" not in point]  # those are passed in the consumer's thread
    await _in_lanes(bench, list(islice(cycle(points), bench.choose(quick=4, ci=8, long=44))), action="raise", exit_code=1)


async def _ends_in_turn(bench: Bench, number: signal.Signals, *, times: int, store: str, seed: int) -> float:
    """Two workers; while events come in, one of them is ended by a signal and replaced; return the longest end."""
    rng = random.Random(seed)
    stopped_in = []
    workload = make_workload(seed=seed, runs=40, calls=20 * (times + 1), partitions=PARTITIONS)
    async with bench.scene(settings={"store": store}) as scene:
        workers = [scene.start_worker(data_dir=f"data-{name}") for name in range(2)]
        async with scene.publishing(workload, rate=RATE):
            await scene.until_taken_over(workers[0])
            for _ in range(times):
                await asyncio.sleep(rng.uniform(0.0, 1.5))
                victim = rng.randrange(2)
                if number is signal.SIGTERM:
                    await scene.until_taken_over(workers[victim])  # before that, its handlers are not set up
                ends, began = scene.sent, time.monotonic()
                workers[victim].send(number)
                code = await scene.until_ended(workers[victim], patience=60)
                if number is signal.SIGTERM and code != 0:
                    raise scene.failure(f"a worker that was told to stop ended with exit code {code}")
                stopped_in.append(time.monotonic() - began)
                workers[victim] = scene.start_worker(data_dir=f"data-{victim}")
                await scene.caught_up(ends)
                bench.tally.recovered(time.monotonic() - began)
        await scene.until_committed()
        bench.tally.add(await scene.verdict())
    return max(stopped_in)


@fault("kill -9 at random moments")
async def kill_at_random_moments(bench: Bench) -> None:
    """One of two workers, whatever it is doing."""
    times = bench.choose(quick=1, ci=2, long=24)
    await asyncio.gather(
        *(
            _ends_in_turn(bench, signal.SIGKILL, times=times, store=STORES[number % 2], seed=100 + number)
            for number in range(LANES)
        )
    )


@fault("SIGTERM")
async def terminate(bench: Bench) -> None:
    """One of two workers is told to stop: it writes, commits, leaves and ends with exit code 0."""
    times = bench.choose(quick=1, ci=2, long=12)
    longest = await asyncio.gather(
        *(_ends_in_turn(bench, signal.SIGTERM, times=times, store=STORES[number % 2], seed=200 + number) for number in range(2))
    )
    bench.tally.note(f"a worker ends within {max(longest):.1f} s")
