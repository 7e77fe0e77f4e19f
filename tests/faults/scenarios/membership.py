"""Workers that join, leave and crash while events flow."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.catalogue import Bench, fault
from tests.faults.making.worker_processes import Worker
from tests.faults.scene import PARTITIONS, Scene
from tests.faults.workload import make_workload
from tests.faults.workload.pulses import pulses

#: Events per second; about every eighth brings a decision in each partition, so that one which goes on shows it every 20 ms.
RATE = 400.0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the membership: when, and whose each partition was before and after (process ids)."""

    what: str
    began: float
    ended: float
    before: dict[int, int]
    after: dict[int, int]


@fault("1 to 4 workers join, leave and crash")
async def join_leave_crash(bench: Bench) -> None:
    """One worker, then two, four, three, two and one again; events flow all the time."""
    rounds = bench.choose(quick=1, ci=1, long=10)
    mixed = make_workload(seed=7, runs=40, calls=100 * rounds, partitions=PARTITIONS)
    beats = pulses(calls=3000 * rounds, partitions=PARTITIONS)
    workload = [record for pair in zip(mixed, beats, strict=False) for record in pair]
    changes: list[Change] = []
    async with bench.scene() as scene:
        workers = [scene.start_worker(data_dir="data-first")]
        async with scene.publishing(workload, rate=RATE):
            await scene.until_taken_over(workers[0])
            for number in range(rounds):
                changes += [change async for change in _changes(bench, scene, workers, number)]
        await scene.until_committed()
        bench.tally.add(await scene.verdict())
        await _note_pauses(bench, scene, changes)


async def _changes(bench: Bench, scene: Scene, workers: list[Worker], number: int) -> AsyncIterator[Change]:
    yield await _change(bench, scene, workers, "a worker joins", joining=1, number=number)
    yield await _change(bench, scene, workers, "two join", joining=2, number=number)
    yield await _change(bench, scene, workers, "a worker leaves", ending=signal.SIGTERM, number=number)
    yield await _change(bench, scene, workers, "a worker crashes", ending=signal.SIGKILL, number=number)
    yield await _change(bench, scene, workers, "a worker leaves", ending=signal.SIGTERM, number=number)


async def _change(
    bench: Bench,
    scene: Scene,
    workers: list[Worker],
    what: str,
    *,
    number: int,
    joining: int = 0,
    ending: signal.Signals | None = None,
) -> Change:
    """Change the membership and wait until all partitions are shared out and what came in before is committed."""
    before, began, ends = _owners(workers), time.time(), scene.sent
    takeovers = {worker.pid: len(worker.takeovers()) for worker in workers}
    for name in range(joining):
        workers.append(scene.start_worker(data_dir=f"data-{number}-{len(workers)}-{name}"))
    if ending is not None:
        gone = workers.pop(0)
        gone.send(ending)
        await scene.until_ended(gone)
    await scene.until(
        lambda: (
            all(len(worker.takeovers()) > takeovers.get(worker.pid, 0) for worker in workers)
            and sorted(_owners(workers)) == list(range(PARTITIONS))
        ),
        f"partitions are shared out after: {what}",
    )
    await scene.caught_up(ends)
    bench.tally.recovered(time.time() - began)
    await asyncio.sleep(0.5)  # decisions after the pause, by which its end is told
    return Change(what, began, time.time(), before, _owners(workers))


def _owners(workers: list[Worker]) -> dict[int, int]:
    return {number: worker.pid for worker in workers for numbers in worker.takeovers()[-1:] for number in numbers}


async def _note_pauses(bench: Bench, scene: Scene, changes: list[Change]) -> None:
    """Tell the longest time without a decision in partitions that stayed with their worker, and in those that moved."""
    published = await scene.reader.read(scene.settings.topics.decisions, PARTITIONS)
    times = [[record.timestamp / 1000 for record in records if (record.key or b"").startswith(b"pulse")] for records in published]
    for what in dict.fromkeys(change.what for change in changes):
        stayed, moved = [0.0], [0.0]
        for change in (change for change in changes if change.what == what):
            for number in range(PARTITIONS):
                kind = stayed if change.before.get(number) == change.after.get(number) else moved
                kind.append(_longest_gap(times[number], change))
        bench.tally.note(f"{what}: pause {max(stayed):.1f} s where nothing moved, {max(moved):.1f} s where it did")


def _longest_gap(times: list[float], change: Change) -> float:
    gaps = (after - before for before, after in pairwise(times) if after > change.began and before < change.ended)
    return max(gaps, default=0.0)
