"""States that are lost, stale, foreign, compacted, old, new, many."""

import asyncio
import shutil
import signal
import time
from collections.abc import Sequence

from tests.faults.catalogue import Bench, fault
from tests.faults.making.stored_states import many_states, of_newer_version, of_version_1
from tests.faults.making.worker_processes import Worker
from tests.faults.scenarios.kills import pieces
from tests.faults.scenarios.start_up import seconds_to_first_verdict
from tests.faults.scene import PARTITIONS, FaultError, Scene
from tests.faults.workload import Input, make_workload
from tests.faults.workload.pulses import pulses

ROCKSDB = {"store": "rocksdb://"}

#: Seconds until the first verdict of a worker that has to recover the states of 100,000 runs into memory.
RECOVERED_WITHIN = 10.0


def _workload(seed: int, parts: int) -> list[Sequence[Input]]:
    return pieces(make_workload(seed=seed, runs=40, calls=20 * parts, partitions=PARTITIONS), parts)


async def _through(scene: Scene, part: Sequence[Input]) -> float:
    """Publish a part and wait until it is committed."""
    began = time.monotonic()
    await scene.publish(part)
    await scene.until_committed()
    return time.monotonic() - began


async def _ended(scene: Scene, worker: Worker, number: signal.Signals) -> None:
    worker.send(number)
    await scene.until_ended(worker)


@fault("RocksDB directory lost")
async def lost(bench: Bench) -> None:
    """The disk of a killed worker is gone."""
    async with bench.scene(settings=ROCKSDB) as scene:
        first, second = _workload(21, 2)
        worker = scene.start_worker(data_dir="data")
        await _through(scene, first)
        await _ended(scene, worker, signal.SIGKILL)
        shutil.rmtree(scene.folder / "data")
        scene.start_worker(data_dir="data")
        bench.tally.recovered(await _through(scene, second))
        bench.tally.add(await scene.verdict())


@fault("RocksDB directory stale")
async def stale(bench: Bench) -> None:
    """A worker gets its directory back as it was two parts ago."""
    async with bench.scene(settings=ROCKSDB) as scene:
        first, second, third = _workload(22, 3)
        worker = scene.start_worker(data_dir="data")
        await _through(scene, first)
        await _ended(scene, worker, signal.SIGTERM)
        shutil.copytree(scene.folder / "data", scene.folder / "backup")
        worker = scene.start_worker(data_dir="data")
        await _through(scene, second)
        await _ended(scene, worker, signal.SIGKILL)
        scene.start_worker(data_dir="backup")
        bench.tally.recovered(await _through(scene, third))
        bench.tally.add(await scene.verdict())


@fault("RocksDB directory of other partitions")
async def of_other_partitions(bench: Bench) -> None:
    """Two workers, then one with the directory of its half, then two with each other's."""
    async with bench.scene(settings=ROCKSDB) as scene:
        first, second, third = _workload(23, 3)
        workers = [scene.start_worker(data_dir=f"data-{name}") for name in "ab"]
        for worker in workers:
            await scene.until_taken_over(worker)
        await _through(scene, first)
        # Not SIGTERM: a group of Tansu 0.6 that two members leave at once may never form again.
        await asyncio.gather(*(_ended(scene, worker, signal.SIGKILL) for worker in workers))
        alone = scene.start_worker(data_dir="data-a")
        bench.tally.recovered(await _through(scene, second))
        await _ended(scene, alone, signal.SIGKILL)
        for name in "ba":
            await scene.until_taken_over(scene.start_worker(data_dir=f"data-{name}"))
        bench.tally.recovered(await _through(scene, third))
        bench.tally.add(await scene.verdict())


@fault("RocksDB directory of another changelog", in_pytest=("kafka",))
async def of_another_changelog(bench: Bench) -> None:
    """The directory holds the states of the same runs from topics that are gone: a wiped cluster, another group."""
    first, second = _workload(24, 2)
    async with bench.scene(settings=ROCKSDB) as before:
        before.start_worker(data_dir="data")
        await _through(before, [*first, *second])
        async with bench.scene(settings=ROCKSDB) as scene:
            worker = before.workers[0]
            await _ended(before, worker, signal.SIGTERM)
            shutil.copytree(before.folder / "data", scene.folder / "data")
            scene.start_worker(data_dir="data")
            bench.tally.recovered(await _through(scene, first))
            bench.tally.add(await scene.verdict())


@fault("state of the older codec version")
async def older_version(bench: Bench) -> None:
    """A changelog written by version 1 is read, and goes on as if nothing had been."""
    async with bench.scene() as scene:
        first, second = _workload(25, 2)
        worker = scene.start_worker()
        await _through(scene, first)
        await _ended(scene, worker, signal.SIGTERM)
        states = await scene.final_states()
        await scene.write_changelog(
            (number, run_id.encode(), of_version_1(run_id, stored)) for (number, run_id), stored in states.items()
        )
        scene.start_worker()
        bench.tally.recovered(await _through(scene, second))
        bench.tally.add(await scene.verdict())


@fault("state of a newer codec version", in_pytest=("embedded",))
async def newer_version(bench: Bench) -> None:
    """A worker that cannot read a state says what to do and ends with exit code 1; the next version goes on."""
    async with bench.scene() as scene:
        first, second = _workload(26, 2)
        worker = scene.start_worker()
        await _through(scene, first)
        await _ended(scene, worker, signal.SIGTERM)
        states = await scene.final_states()
        newer = [(number, run_id.encode(), of_newer_version(stored)) for (number, run_id), stored in states.items()]
        await scene.write_changelog(newer)
        await scene.write_changelog(newer)  # twice: a recovery compares the two
        await scene.publish(second)
        refusing = scene.start_worker()
        code = await scene.until_ended(refusing, patience=60)
        if code != 1 or "upgrade the worker" not in refusing.log_text():
            raise scene.failure(f"exit code {code}; the log must say what to do")
        await scene.write_changelog((number, run_id.encode(), stored) for (number, run_id), stored in states.items())
        began = time.monotonic()
        scene.start_worker()
        await scene.until_committed()
        bench.tally.recovered(time.monotonic() - began)
        bench.tally.add(await scene.verdict())


@fault("recovery of 100k runs")
async def recovery_of_many(bench: Bench) -> None:
    """A new worker reads the states of 100,000 runs, into memory, before its first verdict."""
    calls = bench.choose(quick=4, ci=10, long=30)
    async with bench.scene() as scene:
        topic = scene.settings.topics.tool_calls
        stored = list(many_states(100_000, calls=calls, partitions=PARTITIONS, policy=scene.policy, topic=topic))
        await scene.write_changelog(stored)
        await scene.publish(pulses(calls=40, partitions=PARTITIONS))
        took = await seconds_to_first_verdict(scene)
        await scene.until_committed()
        size = sum(len(value) for _, _, value in stored)
        held = scene.workers[0].peak_resident_bytes
        bench.tally.note(f"states of {size / len(stored):.0f} B, worker {held / 2**20:.0f} MiB")
        bench.tally.recovered(took)
        bench.tally.add(await scene.verdict(untouched={(number, key.decode()): value for number, key, value in stored}))
    if took > RECOVERED_WITHIN:
        raise FaultError(f"first verdict after {took:.1f} s, more than {RECOVERED_WITHIN:.0f} s")


@fault("changelog compacted by the broker", brokers=["kafka"])
async def compacted(bench: Bench) -> None:
    """The cleaner removes what is superseded, tombstones too, between two workers."""
    prompt = {
        "cleanup.policy": "compact",
        "segment.ms": "500",
        "segment.bytes": str(1024 * 1024),
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "100",
    }
    async with bench.scene(changelog_config=prompt) as scene:
        first, second, third = _workload(27, 3)
        worker = scene.start_worker()
        await _through(scene, first)
        await _through(scene, second)
        await _ended(scene, worker, signal.SIGKILL)
        changelog = scene.settings.topics.changelog(scene.settings.group)

        async def removed() -> int:
            records, ends = await scene.reader.read_with_ends(changelog, PARTITIONS)
            return sum(ends) - sum(map(len, records))

        began = time.monotonic()
        while not await removed():
            if time.monotonic() - began > 60:
                raise scene.failure("the broker has compacted nothing in 60 s")
            # A segment is only rolled, and so cleaned, when something is written to it.
            await scene.write_changelog((number, b"roll", None) for number in range(PARTITIONS))
            await asyncio.sleep(0.3)
        bench.tally.note(f"{await removed()} records gone")
        scene.start_worker()
        bench.tally.recovered(await _through(scene, third))
        bench.tally.add(await scene.verdict())
