"""Workers that are stopped in their tracks past their session, and come back."""

import asyncio
import random
import signal
import time

from tests.faults.catalogue import Bench, fault
from tests.faults.making.plan import FaultPlan
from tests.faults.making.worker_processes import Worker
from tests.faults.scenarios.kills import pieces
from tests.faults.scene import PARTITIONS, FaultError, Scene
from tests.faults.workload import make_workload

#: Points before a look at the lease: whatever comes after it must not be written.
BEFORE_A_CHECK = ("before-check", "after-dead-letters", "after-decisions", "after-store")

#: Points between such a look and the write: it may arrive late, which is not promised away, but it does no harm.
BEFORE_A_WRITE = ("before-dead-letters", "before-decisions", "before-states", "before-offsets")

#: Seconds in which a worker that does not rejoin must have ended.
MUST_END_WITHIN = 5.0


async def _pause_at(bench: Bench, point: str, *, seed: int, silent: bool) -> None:
    """Pause a worker at a point, let another one do all its work, let it go on, and see what it does."""
    workload = make_workload(seed=seed, runs=30, calls=30, partitions=PARTITIONS, ending=not silent)
    parts = pieces(workload, 3)
    passing = random.Random(seed).randint(1, 4) if point != "before-offsets" else 1
    async with bench.scene() as scene:
        paused = scene.start_worker(
            FaultPlan(point=point, action="pause", passing=passing, runs_only=silent), data_dir="data-paused"
        )
        await scene.publish(parts[0])
        await scene.until(lambda: paused.paused, f"the worker comes to {point}")
        other = scene.start_worker(data_dir="data-other")
        await scene.publish(parts[1])
        await scene.until_committed()
        await scene.until_judged(other)  # the last write that is still to come of the other one
        before = await _ends_of_outputs(scene)
        takeovers, began = len(paused.takeovers()), time.monotonic()
        paused.send(signal.SIGCONT)
        await _until_back(scene, paused, takeovers)
        bench.tally.recovered(time.monotonic() - began)
        if silent and (written := await _written_since(scene, before)):
            raise scene.failure(f"written after the session of a worker paused at {point}:\n" + "\n".join(written))
        await scene.publish(parts[2])
        await scene.until_committed()
        bench.tally.add(await scene.verdict())
        assert other.alive


async def _until_back(scene: Scene, paused: Worker, takeovers: int) -> None:
    """Wait until the worker has partitions again, or has ended with an error soon enough."""
    began = time.monotonic()
    await scene.until(
        lambda: len(paused.takeovers()) > takeovers or not paused.alive, "the paused worker rejoins or ends", patience=60
    )
    if not paused.alive:
        took = time.monotonic() - began
        if not paused.exit_code or took > MUST_END_WITHIN:
            raise scene.failure(f"the paused worker ended with exit code {paused.exit_code} after {took:.1f} s")


async def _ends_of_outputs(scene: Scene) -> dict[str, list[int]]:
    topics = scene.settings.topics
    names = [topics.decisions, *(topics.dead_letters(topic) for topic in topics.inputs), topics.changelog(scene.settings.group)]
    return {name: (await scene.reader.read_with_ends(name, PARTITIONS))[1] for name in names}


async def _written_since(scene: Scene, before: dict[str, list[int]]) -> list[str]:
    """Name the records that the outputs have got."""
    found = []
    for name, ends in before.items():
        for records, end in zip(await scene.reader.read(name, PARTITIONS), ends, strict=True):
            found += [
                f"{name}[{new.partition}]@{new.offset}: {new.key!r} {new.value!r:.300}" for new in records if new.offset >= end
            ]
    return found


@fault("SIGSTOP past the session", in_pytest=("embedded", "kafka"))
async def pause_before_a_check(bench: Bench) -> None:
    """Stopped before it looks whether its partitions are its own: it writes nothing, drops its batch and rejoins."""
    points = [point for point in BEFORE_A_CHECK for _ in range(bench.choose(quick=1, ci=1, long=5))]
    await asyncio.gather(*(_pause_at(bench, point, seed=300 + number, silent=True) for number, point in enumerate(points)))


@fault("SIGSTOP between check and write")
async def pause_before_a_write(bench: Bench) -> None:
    """Stopped after the last look: what it was about to write arrives late, and changes nothing."""
    points = [point for point in BEFORE_A_WRITE for _ in range(bench.choose(quick=1, ci=1, long=5))]
    await asyncio.gather(*(_pause_at(bench, point, seed=400 + number, silent=False) for number, point in enumerate(points)))


@fault("SIGSTOP at random moments")
async def pause_at_random(bench: Bench) -> None:
    """Both of two workers in turn, past their session, while events flow."""
    rounds = bench.choose(quick=1, ci=2, long=20)
    rng = random.Random(5)
    workload = make_workload(seed=5, runs=40, calls=60 * rounds, partitions=PARTITIONS)
    async with bench.scene() as scene:
        workers = [scene.start_worker(data_dir=f"data-{name}") for name in range(2)]
        async with scene.publishing(workload, rate=400.0):
            for worker in workers:
                await scene.until_taken_over(worker)
            for number in range(rounds):
                await asyncio.sleep(rng.uniform(0.0, 1.0))
                paused = workers[number % 2]
                takeovers = len(paused.takeovers())
                paused.send(signal.SIGSTOP)
                await asyncio.sleep(bench.broker.session_timeout * rng.uniform(1.2, 2.0))  # longer than a session is the point
                ends, began = scene.sent, time.monotonic()
                paused.send(signal.SIGCONT)
                await _until_back(scene, paused, takeovers)
                if not paused.alive:
                    workers[number % 2] = scene.start_worker(data_dir=f"data-{number % 2}")
                await scene.caught_up(ends)
                bench.tally.recovered(time.monotonic() - began)
        await scene.until_committed()
        bench.tally.add(await scene.verdict())
        if not all(worker.alive for worker in workers):
            raise FaultError("a worker did not stay")
