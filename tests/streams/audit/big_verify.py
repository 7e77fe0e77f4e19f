"""Verify many events, with a change of policy midway, workers that are killed, and duplicates.

`python -m tests.streams.audit.big_verify [EVENTS]`; a million events (the default) take some minutes and about 1.5 GB for the
embedded broker, which keeps all of it in memory. Ends with exit code 1 when there is a difference.
"""

import asyncio
import contextlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from schemas.policy import PolicyDocument
from schemas.policy_records import DEFAULT_KEY
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit.findings import Finding, Tally
from streams.audit.planning import Selection, plan
from streams.audit.verify import verify_partitions
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.intake.publishing import publish_events
from streams.policies_topic import MarkerWatch, publish_policy
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics
from tests.streams.audit.made_traffic import traffic

PARTITIONS = 4
FIRST = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})
SECOND = PolicyDocument.from_mapping(
    {
        "tools": {
            "loopDetection": {"enabled": True, "warningThreshold": 5, "criticalThreshold": 8, "globalCircuitBreakerThreshold": 12}
        }
    }
)


async def make(settings: Settings, count: int, *, kills: int, folder: Path) -> int:
    """Have two workers judge the traffic, killing one of them now and then; return how many kills there were."""
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    await publish_policy(connection, topics, FIRST, key=DEFAULT_KEY)
    rng = random.Random(5)
    parts = max(4, 2 * kills)
    events = traffic(count, topics)
    ends: Counter[tuple[str, int]] = Counter()
    workers = [WorkerProcess(settings, log_path=folder / f"worker{number}.log") for number in range(2)]
    for worker in workers:
        worker.__enter__()
    killed = 0
    try:
        for part in range(parts):
            if part == parts // 2:
                async with MarkerWatch(connection, topics) as watch:
                    await publish_policy(connection, topics, SECOND, key=DEFAULT_KEY)
                    await watch.until_in_force(SECOND.version, patience=120)
            slice_ = list(itertools.islice(events, count // parts + (count % parts if part == parts - 1 else 0)))
            await publish_events(connection, slice_, topics=topics)
            ends.update((event.topic, partition_of(event.run_id, PARTITIONS)) for event in slice_)
            if killed < kills:
                victim = rng.randrange(2)
                await asyncio.sleep(rng.uniform(0.1, 1.0))  # a moment of the worker's life, not something to wait for
                workers[victim].kill()
                workers[victim] = WorkerProcess(settings, log_path=folder / f"worker{victim}.log")
                workers[victim].__enter__()
                killed += 1
        await workers[0].wait_until_committed([(*place, end) for place, end in ends.items()], patience=600)
    finally:
        for worker in workers:
            worker.stop()
    return killed


def verify(settings: Settings) -> tuple[Tally, list[Finding]]:
    """Verify everything."""
    tally, findings = Tally(), []
    for result in verify_partitions(plan(settings, Selection())):
        tally.add(result.tally)
        findings += result.findings
    return tally, findings


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def peak_of(pid: int) -> int:
    """Return the MiB that a process had at most. (The kernel's own figure for a child begins with its parent's.)"""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
    return 0


def verify_by_command(settings: Settings) -> tuple[int, float, int, list[str]]:
    """Run `loopwarden audit verify`; return its exit code, seconds, the MiB of its largest process, and what it printed."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "streams.cli", "audit", "verify"]
        process = subprocess.Popen(command, env={**os.environ, **settings.environment()}, stdout=output)
        peak = 0
        while process.poll() is None:
            peak = max(peak, *map(peak_of, (process.pid, *children_of(process.pid))))
            time.sleep(0.05)
        took = time.perf_counter() - begin
        output.seek(0)
        lines = output.read().decode().splitlines()
    return process.returncode, took, peak, lines


def main() -> int:
    """Print what was made, what was found, and how long it took."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix="big.",
            group="big",
            idempotent_producer=False,
            session_timeout=2.0,
            heartbeat_interval=0.5,
        )
        begin = time.perf_counter()
        killed = asyncio.run(make(settings, count, kills=max(4, count // 100_000), folder=Path(folder)))
        print(f"{count:,} events judged in {time.perf_counter() - begin:.0f} s, {killed} kills", flush=True)
        code, took, peak, lines = verify_by_command(settings)
    for line in lines[:20]:
        print(line)
    print(f"audit verify: exit code {code}, {took:.1f} s, {count / took:,.0f} events/s; its largest process had {peak} MiB")
    return code


if __name__ == "__main__":
    sys.exit(main())
