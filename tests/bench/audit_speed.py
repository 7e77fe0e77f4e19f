"""How fast `audit verify` is beside the worker that decided: `python -m tests.bench.audit_speed [EVENTS] [RUNS]`.

In one run, on one broker: a worker judges the events of `worker_throughput`, then the same topics are verified, three times by
one process and three times by as many as there are cores. The worker's clock stops when it has committed everything, less the
time it needs to come up; the audit's clock includes planning and the start of its processes. CPU times are those of the worker's
process and of all of the audit's; on a busy machine they are the fairer comparison.
"""

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from schemas.settings import Settings
from streams.audit.findings import Tally
from streams.audit.planning import Selection, plan
from streams.audit.verify import verify_partitions
from streams.broker import EmbeddedBroker
from tests.bench.worker_throughput import events, measure


def verify(settings: Settings, *, processes: int) -> tuple[float, Tally]:
    """Return the seconds of one verification, and what it found."""
    tally = Tally()
    begin = time.perf_counter()
    for result in verify_partitions(plan(settings, Selection()), processes=processes):
        tally.add(result.tally)
    return time.perf_counter() - begin, tally


def cpu_seconds(*whose: int) -> float:
    """Return the CPU time of this process, or of the children that have ended (the broker has not)."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def main() -> None:
    """Print the worker's rate, the audit's, and how they compare."""
    count, runs = (int(argument) for argument in [*sys.argv[1:], "200000", "1000"][:2])
    made = events(count, runs, "")
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        servers = broker.bootstrap_servers
        up = asyncio.run(measure(servers, "up", made[: 2 * runs][:2000], Path(folder)))
        spent = cpu_seconds(resource.RUSAGE_CHILDREN)
        took = asyncio.run(measure(servers, "judged", made, Path(folder)))
        worker = count / (took - up)
        own = (cpu_seconds(resource.RUSAGE_CHILDREN) - spent) / count * 1e6
        print(f"worker: {worker:,.0f} events/s after {up:.1f} s to come up; {own:.0f} us of CPU an event", flush=True)
        settings = Settings(bootstrap_servers=servers, topic_prefix="judged.", group="judged")
        for processes in sorted({1, os.cpu_count() or 1}):
            rates = []
            spent = cpu_seconds(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            for _ in range(3):
                seconds, tally = verify(settings, processes=processes)
                rates.append(count / seconds)
                if tally.differences or not tally.equal:
                    sys.exit(f"the audit found what should not be there: {tally}")
            rate = statistics.median(rates)
            used = (cpu_seconds(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) - spent) / count / 3 * 1e6
            print(
                f"verify, {processes} process(es): {rate:,.0f} events/s, {rate / worker:.1f} times the worker; "
                f"{used:.0f} us of CPU an event, {own / used:.1f} times less",
                flush=True,
            )
        print(f"{tally.equal:,} decisions; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
