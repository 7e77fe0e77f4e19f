"""What a gate and a publisher cost an agent: `python -m tests.bench.gateway_client [--json] [--kafka]`.

Each figure is the time of single calls, in microseconds. The gate knows 10,000 live runs, each with three standing verdicts, read
through the same decoding as from the topic. The publisher's figure is what one tool call pays: its start and its end reported.
It is taken with a broker that is up, and with one that was killed (the embedded broker, or with `--kafka` an Apache Kafka), and
beside it the processor time that the event loop spends on sending, per tool call, between the calls. The last line is the way
through broker and worker: from the report of a call to the refusal of the next.
"""

import argparse
import asyncio
import gc
import itertools
import json
import platform
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka.structs import ConsumerRecord

from schemas.settings import Settings
from schemas.topics import partition_of
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.gateway import EventPublisher, VerdictGate
from streams.gateway.call_identity import fingerprint_call
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics
from tests.brokers.apache_kafka import ApacheKafka
from tests.streams.gateway.lab import decision

RUNS = 10_000
CHECKS = 200_000
REPORTS = 20_000
LOOPS = 40
SMALL = {"path": "src/parts/engine.py", "offset": 120, "limit": 80}
LARGE = {"command": "python - <<'EOF'\n" + "print('x' * 80)\n" * 250 + "EOF", "timeout": 30}
FLOATS = {"points": [[number / 7, number / 3] for number in range(20)]}


def spread(times: list[int]) -> dict[str, float]:
    """Return p50, p99 and the largest of nanoseconds, in microseconds."""
    ordered = sorted(times)
    return {
        "p50_us": round(statistics.median(ordered) / 1000, 2),
        "p99_us": round(ordered[len(ordered) * 99 // 100] / 1000, 2),
        "max_us": round(ordered[-1] / 1000, 1),
    }


def timed(count: int, call: Callable[[int], object]) -> dict[str, float]:
    """Time single calls by the wall clock, and again by the thread's processor time, which other programs do not lengthen."""
    figures = spread(_times(count, call, time.perf_counter_ns))
    return {**figures, "cpu_p99_us": spread(_times(count, call, time.thread_time_ns))["p99_us"]}


def _times(count: int, call: Callable[[int], object], clock: Callable[[], int]) -> list[int]:
    times = []
    for number in range(count):
        begin = clock()
        call(number)
        times.append(clock() - begin)
    return times


def record_of(item: Any, offset: int) -> ConsumerRecord:
    """Make the record that a decision is read from."""
    value = item.to_record(source="bench")
    now = int(time.time() * 1000)
    return ConsumerRecord("t", item.as_of.partition, offset, now, 0, item.run_id.encode(), value, None, 0, 0, ())


def run_name(number: int) -> str:
    return f"run-{number:08d}-0123456789abcdef"


def known_gate() -> tuple[VerdictGate, float]:
    """Return a gate that knows the runs, and the bytes that each takes there."""
    gate = VerdictGate(Settings())
    records = (
        record_of(
            decision(
                action,
                run_id=run_name(number),
                params=params,
                offset=3 * number + step,
                partition=partition_of(run_name(number), 4),
                message="read has been called 20 times with the same arguments and the same outcome, so this call is refused.",
                evidence=[{"sequence": 10**15 + n, "call_id": f"call_{n}"} for n in range(20)],
            ),
            3 * number + step,
        )
        for number in range(RUNS)
        for step, (action, params) in enumerate((("block", {"n": number}), ("warn", {"n": number, "x": 1}), ("block", LARGE)), 1)
    )
    gc.collect()
    tracemalloc.start()
    while batch := list(itertools.islice(records, 300)):
        gate._take(0, batch)
    del batch
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return gate, size / RUNS


def check_figures(gate: VerdictGate) -> dict[str, dict[str, float]]:
    """Time checks of the kinds that agents make."""
    gate._feed.fresh_at = time.monotonic() + 3600
    names = [run_name(number * 7919 % RUNS) for number in range(CHECKS)]
    numbers = [number * 7919 % RUNS for number in range(CHECKS)]
    strangers = [f"other-{number}" for number in range(CHECKS)]
    call = fingerprint_call("read", SMALL)
    return {
        "run without verdicts": timed(CHECKS, lambda n: gate.check(strangers[n], "read", SMALL)),
        "run with verdicts, call goes ahead": timed(CHECKS, lambda n: gate.check(names[n], "read", SMALL)),
        "the same, call fingerprinted before (guard)": timed(CHECKS, lambda n: gate.check(names[n], "read", SMALL, call=call)),
        "call is refused": timed(CHECKS, lambda n: gate.check(names[n], "read", {"n": numbers[n]})),
        "run with verdicts, parameters of 4 KB": timed(CHECKS // 4, lambda n: gate.check(names[n], "read", {**LARGE, "n": n})),
        "run with verdicts, 40 floats": timed(CHECKS // 40, lambda n: gate.check(names[n], "read", FLOATS)),
    }


@contextmanager
def broker_of(kafka: bool) -> Iterator[tuple[Any, bool]]:
    """Run a broker; yield it and whether it knows idempotent producers."""
    with ApacheKafka() if kafka else EmbeddedBroker() as broker:
        yield broker, kafka


async def publisher_figures(kafka: bool) -> dict[str, dict[str, float]]:
    """Time reports with a broker that is up, and after it was killed."""
    found = {}
    with broker_of(kafka) as (broker, idempotent):
        settings = Settings(bootstrap_servers=broker.bootstrap_servers, idempotent_producer=idempotent)
        await create_topics(Connection.from_settings(settings), settings.topics)
        async with EventPublisher(settings, buffer_events=4 * REPORTS) as publisher:
            publisher.call_started("warm-up", "read", {})
            await publisher.flush(30)
            found["broker up"] = await report(publisher)
            assert await publisher.flush(60)
            broker.kill() if kafka else broker.stop()
            found["broker killed"] = await report(publisher)
            assert publisher.dropped == 0
            await publisher.aclose(timeout=0.1)
        async with EventPublisher(settings, buffer_events=100) as publisher:
            found["broker killed, buffer full"] = await report(publisher)
            await publisher.aclose(timeout=0.1)
    return found


async def latency_figures(kafka: bool) -> dict[str, float]:
    """Time from the report of a twentieth equal call until the gate refuses the next, a worker in between; in milliseconds."""
    with broker_of(kafka) as (broker, idempotent), tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.json"
        policy.write_text('{"tools": {"loopDetection": {"enabled": true}}}')
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            idempotent_producer=idempotent,
            policy_file=policy,
            session_timeout=6.0 if kafka else 2.0,
            heartbeat_interval=0.5,
        )
        await create_topics(Connection.from_settings(settings), settings.topics)
        times = []
        with WorkerProcess(settings, log_path=Path(folder) / "worker.log") as worker:
            async with EventPublisher(settings) as publisher, VerdictGate(settings) as gate:
                publisher.run_ended("warm-up")
                await publisher.flush(60)
                await worker.wait_until_committed([(*place, end) for place, end in publisher.ends.items()])
                await gate.wait_until_caught_up(60)
                for number in range(LOOPS):
                    for _ in range(20):
                        publisher.call_started(run_name(number), "read", SMALL)
                        publisher.call_finished(run_name(number), "read", SMALL, result="same")
                    begin = time.perf_counter()
                    while not gate.check(run_name(number), "read", SMALL).refused:  # noqa: ASYNC110  (an agent asks, too)
                        await asyncio.sleep(0.001)
                    times.append(time.perf_counter() - begin)
                    await asyncio.sleep(0.037 * (number % 5))  # not in step with the waits of fetches
        ordered = sorted(times)
        picked = {"p50_ms": statistics.median(ordered), "p90_ms": ordered[LOOPS * 9 // 10], "max_ms": ordered[-1]}
        return {name: round(1000 * seconds) for name, seconds in picked.items()}


async def report(publisher: EventPublisher) -> dict[str, float]:
    """Report calls, letting the loop do its work after each; return what the reports took, and the loop's work per call."""
    times = []
    begin_cpu, inside_cpu = time.thread_time_ns(), 0
    for number in range(REPORTS):
        run_id, params, call_id = run_name(number % 100), {**SMALL, "n": number}, f"call_{number:024d}"
        before_cpu, begin = time.thread_time_ns(), time.perf_counter_ns()
        publisher.call_started(run_id, "read", params, call_id=call_id)
        publisher.call_finished(run_id, "read", params, result="def engine(): ...\n" * 20, call_id=call_id)
        times.append(time.perf_counter_ns() - begin)
        inside_cpu += time.thread_time_ns() - before_cpu
        if number % 10 == 0:  # ten agents in one loop, each with a call a millisecond
            await asyncio.sleep(0.001)
        else:
            await asyncio.sleep(0)
    outside = time.thread_time_ns() - begin_cpu - inside_cpu
    return {**spread(times), "loop_us_per_call": round(outside / REPORTS / 1000, 1)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway_client", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--kafka", action="store_true", help="an Apache Kafka in place of the embedded broker")
    given = parser.parse_args()
    gate, memory = known_gate()
    results: dict[str, Any] = {
        "python": platform.python_version(),
        "runs": RUNS,
        "gate_bytes_per_run": round(memory),
        "check": check_figures(gate),
        "publish": asyncio.run(publisher_figures(given.kafka)),
        "refusal": asyncio.run(latency_figures(given.kafka)),
    }
    if given.json:
        print(json.dumps(results))
        return 0
    print(f"gate: {RUNS:,} live runs with three verdicts each, {memory:,.0f} bytes per run")
    for title, figures in results["check"].items():
        print(
            f"check, {title}: p50 {figures['p50_us']} us, p99 {figures['p99_us']} us "
            f"(of processor time {figures['cpu_p99_us']} us), max {figures['max_us']} us"
        )
    for title, figures in results["publish"].items():
        print(
            f"publish a call (start and end), {title}: p50 {figures['p50_us']} us, p99 {figures['p99_us']} us, "
            f"max {figures['max_us']} us; {figures['loop_us_per_call']} us of the loop's time"
        )
    late = results["refusal"]
    print(f"from a report to the refusal: p50 {late['p50_ms']} ms, p90 {late['p90_ms']} ms, max {late['max_ms']} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
