"""A broker that restarts, is away, is silent, is slow."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tests.faults.catalogue import Bench, fault
from tests.faults.making.plan import FaultPlan
from tests.faults.making.proxy import Proxy
from tests.faults.scene import PARTITIONS, Scene
from tests.faults.workload import make_workload

RATE = 400.0

#: Seconds within which a group is through with the backlog of an outage.
PATIENCE = 240.0


async def _restarts(bench: Bench, end: Callable[[], None], *, times: int, away: float) -> None:
    """End the broker and start it again on the same data, under two running workers, while events come in."""
    kafka = bench.broker.kafka
    assert kafka is not None
    workload = make_workload(seed=11, runs=40, calls=60 * times, partitions=PARTITIONS)
    async with bench.scene() as scene:
        workers = [scene.start_worker(data_dir=f"data-{name}") for name in range(2)]
        async with scene.publishing(workload, rate=RATE):
            for worker in workers:
                await scene.until_taken_over(worker)
            for _ in range(times):
                await asyncio.sleep(1.0)
                ends = scene.sent
                await asyncio.to_thread(end)
                await asyncio.sleep(away)
                await asyncio.to_thread(kafka.start)
                began = time.monotonic()
                await _supervised(scene, scene.caught_up(ends))
                bench.tally.recovered(time.monotonic() - began)
        await scene.until_committed(patience=PATIENCE, supervise=True)
        bench.tally.add(await scene.verdict())
        gone = sum(not worker.alive for worker in workers)
        bench.tally.note(f"{gone} of 2 workers had to be started again" if gone else "both workers stayed")


async def _supervised(scene: Scene, waiting: Coroutine[Any, Any, None]) -> None:
    """Start a worker when none is left, as an orchestrator does, while something is waited for."""
    task = asyncio.ensure_future(waiting)
    while not task.done():
        if not any(worker.alive for worker in scene.workers):
            scene.start_worker()
        await asyncio.wait([task], timeout=0.2)
    await task


@fault("broker restart, SIGTERM", brokers=["kafka"])
async def restart_by_sigterm(bench: Bench) -> None:
    """An operator's restart, on the same data directory."""
    assert bench.broker.kafka is not None
    await _restarts(bench, bench.broker.kafka.terminate, times=bench.choose(quick=1, ci=1, long=6), away=0.0)


@fault("broker restart, SIGKILL", brokers=["kafka"], in_pytest=("kafka",))
async def restart_by_sigkill(bench: Bench) -> None:
    """A crash of the broker, on the same data directory."""
    assert bench.broker.kafka is not None
    await _restarts(bench, bench.broker.kafka.kill, times=bench.choose(quick=1, ci=1, long=6), away=0.0)


@fault("broker away (10 s, long: 60 s)", brokers=["kafka"])
async def away(bench: Bench) -> None:
    """The broker is gone for longer than sessions last."""
    assert bench.broker.kafka is not None
    seconds = float(bench.choose(quick=5, ci=10, long=60))
    await _restarts(bench, bench.broker.kafka.terminate, times=1, away=seconds)


async def _through_a_proxy(bench: Bench, proxy: Proxy, outage: Callable[[Proxy], None] | None, *, seconds: float) -> None:
    """Two workers reach the broker through a proxy; publishers and checks reach it directly."""
    workload = make_workload(seed=12, runs=40, calls=80, partitions=PARTITIONS)
    async with proxy, bench.scene() as scene:
        plan = FaultPlan(connect_to={bench.broker.port: proxy.port})
        workers = [scene.start_worker(plan, data_dir=f"data-{name}") for name in range(2)]
        async with scene.publishing(workload, rate=RATE):
            for worker in workers:
                await scene.until_taken_over(worker)
            await asyncio.sleep(1.0)
            ends = scene.sent
            if outage is not None:
                outage(proxy)
            await asyncio.sleep(seconds)
            proxy.restore()
            began = time.monotonic()
            await _supervised(scene, scene.caught_up(ends))
            bench.tally.recovered(time.monotonic() - began)
        await scene.until_committed(patience=PATIENCE, supervise=True)
        bench.tally.add(await scene.verdict())
        gone = sum(not worker.alive for worker in workers)
        bench.tally.note(f"{gone} of 2 workers had to be started again" if gone else "both workers stayed")


@fault("connections cut (6 s, long: 60 s)", in_pytest=("embedded",))
async def cut(bench: Bench) -> None:
    """No connection to the broker for longer than a session."""
    seconds = float(bench.choose(quick=4, ci=6, long=60))
    await _through_a_proxy(bench, Proxy(bench.broker.port), Proxy.cut, seconds=seconds)


@fault("network silent (6 s, long: 60 s)")
async def silent(bench: Bench) -> None:
    """Connections stay, nothing gets through, longer than a session."""
    seconds = float(bench.choose(quick=4, ci=6, long=60))
    await _through_a_proxy(bench, Proxy(bench.broker.port), Proxy.silence, seconds=seconds)


@fault("slow broker (100 ms, 400 kB/s)")
async def slow(bench: Bench) -> None:
    """Every answer is late, and few bytes get through."""
    proxy = Proxy(bench.broker.port, delay=0.1, bytes_per_second=400_000)
    await _through_a_proxy(bench, proxy, None, seconds=float(bench.choose(quick=3, ci=5, long=120)))
