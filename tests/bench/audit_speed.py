"""How fast `audit verify` is beside the worker that decided: `python -m tests.bench.audit_speed --help`.

In one run, on one fresh broker: a worker judges the events of the main comparison (`tests.bench.workload`), then the command
`loopwarden audit verify` is run on the same topics, in turn with one process and with as many as there are cores.

Both are rates of what goes on, without what is done once. For the worker that is the rate between the commits of a warm process,
as everywhere in these benchmarks; for the audit the events by the time of the whole command, less what the same command takes for
a few events (the interpreter, planning, processes: about a second, which is printed). So the input has to be large: a million
events by default, for verifying 200,000 takes little longer than the start. CPU times are those of worker and audit, the
broker's left out; on a busy machine they are the fairer comparison.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiokafka import TopicPartition

from schemas.settings import Settings
from streams.connection import Connection
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.comparing import FEW, PARTITIONS, arguments_for
from tests.bench.field import environment_of, worker
from tests.bench.measuring import Figure, Run, figure_of, run_until_committed
from tests.bench.publishing import Publisher
from tests.bench.workload import Workload, make

ROUNDS = 3


async def judged(broker: Broker, workload: Workload, name: str, folder: Path) -> tuple[Settings, Run]:
    """Publish the events to topics of their own and have a worker judge them; return its settings and its run."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{name}.", group=name)
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    publisher = Publisher(connection, topics.tool_calls, partitions=PARTITIONS)
    await publisher.publish(publisher.keyed(make(workload, topics.tool_calls)))
    ends: dict[TopicPartition, int] = publisher.ends
    arguments = arguments_for(broker, topics, group=name, state_dir=folder / name)
    command, changed = worker()(broker, arguments)
    log = arguments.state_dir / "log"
    run = await run_until_committed(command, environment_of(changed), bootstrap=broker.bootstrap, group=name, ends=ends, log=log)
    return settings, run


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """One run of the command: seconds, CPU seconds of all its processes, and its numbers."""

    seconds: float
    cpu: float
    tally: Mapping[str, Any]


def verify(settings: Settings, *, processes: int) -> Verified:
    """Run `loopwarden audit verify`."""
    command = [sys.executable, "-m", "streams.cli", "audit", "verify", "--json", "--processes", str(processes)]
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=environment_of(settings.environment()), stdout=output)
        _, status, used = os.wait4(process.pid, 0)  # of the process and of those that it has started
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().splitlines()
    if process.returncode:
        sys.exit(f"the audit found what should not be there (exit code {process.returncode}): {lines[-1:]}")
    return Verified(seconds=seconds, cpu=used.ru_utime + used.ru_stime, tally=orjson.loads(lines[-1]))


def measure(broker: Broker, workload: Workload, folder: Path) -> None:
    """Print the worker's rate, the audit's, and how they compare."""
    few = Workload(events=min(FEW, workload.events), runs=min(FEW // 10, workload.runs))
    small, start = asyncio.run(judged(broker, few, "few", folder))
    settings, run = asyncio.run(judged(broker, workload, "judged", folder))
    own: Figure = figure_of(run, start, events=workload.events, warm_up_events=few.events)
    print(f"worker: {own.rate:,.0f} events/s, {own.cpu_us_per_event:.1f} us of CPU an event", flush=True)
    numbers = sorted({1, os.cpu_count() or 1})
    found: dict[int, list[tuple[Verified, Verified]]] = {number: [] for number in numbers}
    for _, number in itertools.product(range(ROUNDS), numbers):
        found[number].append((verify(small, processes=number), verify(settings, processes=number)))
    more = workload.events - few.events
    for number, rounds in found.items():
        rates = [more / (full.seconds - little.seconds) for little, full in rounds]
        spent = statistics.median((full.cpu - little.cpu) / more * 1e6 for little, full in rounds)
        rate, once = statistics.median(rates), statistics.median(little.seconds for little, _ in rounds)
        print(
            f"verify, {number} process(es): {rate:,.0f} events/s ({min(rates):,.0f} to {max(rates):,.0f}), "
            f"{rate / own.rate:.2f} times the worker; {spent:.1f} us of CPU an event, {own.cpu_us_per_event / spent:.2f} times "
            f"less; what is done once {once:.1f} s",
            flush=True,
        )
        seen = {(full.tally["events"], full.tally["equal"] > 0, full.tally["differences"]) for _, full in rounds}
        if seen != {(workload.events, True, 0)}:
            sys.exit(f"the audit did not see what the worker did: {seen}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.audit_speed",
        description="How fast `audit verify` is beside the worker that decided.",
        epilog="Example: python -m tests.bench.audit_speed --broker kafka",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--events", type=int, default=1_000_000, help="events to be judged and verified (default: 1000000)")
    parser.add_argument("--runs", type=int, default=1_000, help="runs that they belong to (default: 1000)")
    given = parser.parse_args()
    if min(given.events, given.runs) < 1:
        parser.error("--events and --runs are at least 1")
    with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
        measure(broker, Workload(events=given.events, runs=given.runs), Path(folder))


if __name__ == "__main__":
    main()
