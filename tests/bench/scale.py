"""What a worker costs with many live runs, long histories, many partitions, one hot run, and company.

`python -m tests.bench.scale --help`. Live runs are put into the changelog with full histories before the worker starts. "First"
are the seconds from the start of its process until it has recovered them and committed new events, "again" the same after a
graceful stop, with its disk as it left it. CPU is that between the first commit and the last.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from rich.table import Table

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.connection import Connection
from streams.detection import state_codec
from streams.detection.facts import RunPartition
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.comparing import PARTITIONS
from tests.bench.field import BUILD, worker
from tests.bench.measuring import ContenderError
from tests.bench.members import members
from tests.bench.publishing import Publisher
from tests.bench.report import printing, write
from tests.bench.workload import Workload, make, run_id_of
from tests.faults.making.stored_states import working_state

#: Runs that have events while the others only live.
ACTIVE = 1_000

#: Events of the second start.
FEW = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One line of the table: `live` runs with full histories, of which `active` have the events."""

    name: str
    live: int = ACTIVE
    active: int = ACTIVE
    store: Literal["memory", "rocksdb"] = "memory"
    partitions: int = PARTITIONS
    history: int = 30
    workers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Seconds, bytes and CPU microseconds of one case; memory is that of all its workers after the last event."""

    cpu_us_per_event: float
    first_s: float
    again_s: float
    mib: float
    peak_mib: float
    state_bytes: int


def cases(live: int) -> list[Case]:
    """Return the cases; `live` is the largest number of live runs."""
    found = [Case(name="1,000 live runs"), Case(name="1,000 live runs, RocksDB", store="rocksdb")]
    for size in [*(size for size in (10_000, 100_000) if size < live), live]:
        found.append(Case(name=f"{size:,} live runs", live=size))
        found.append(Case(name=f"{size:,} live runs, RocksDB", live=size, store="rocksdb"))
    found.append(Case(name=f"{live:,} live runs, all active", live=live, active=live))
    found += [Case(name=f"historySize {size}", history=size) for size in (100, 300)]
    found += [Case(name=f"{count} partitions", partitions=count) for count in (64, 256)]
    found.append(Case(name="one hot run", live=1, active=1))
    found += [Case(name=f"{count} workers", workers=count) for count in (2, 4)]
    return found


async def measure(broker: Broker, case: Case, *, group: str, events: int, folder: Path) -> Figures:
    """Play one case on topics of its own."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{group}.")
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=case.partitions, group=group)
    detection = {"enabled": True, "historySize": case.history}
    policy = {"tools": {"loopDetection": detection}}
    home = RunPartition(topics.tool_calls, 0)
    made = working_state("any", calls=case.history, policy=PolicyDocument.from_mapping(policy), home=home)
    stored = state_codec.encode(made)  # the run's id is not in it
    ids = (run_id_of(run) for run in range(case.live))
    changelog = Publisher(connection, topics.changelog(group), partitions=case.partitions)
    await changelog.publish((partition_of(run_id, case.partitions), run_id.encode(), stored) for run_id in ids)
    calls = Publisher(connection, topics.tool_calls, partitions=case.partitions)
    workload = Workload(events=events, runs=case.active, first_call=case.history)
    await calls.publish(calls.keyed(make(workload, calls.topic)))

    command = worker(f"{case.store}://", policy)
    place = {"group": group, "folder": folder, "partitions": case.partitions, "count": case.workers}
    async with members(command, broker, topics, **place) as workers:
        [(first_at, before), *_] = await workers.until_committed(calls.ends, events=1)
        first, begun = first_at - workers.started, workers.usage()
        await workers.until_committed(calls.ends)
        ended = workers.usage()
        await workers.stop()
    more = replace(workload, events=FEW, first_call=case.history + events // 2 // case.active + 1)
    await calls.publish(calls.keyed(make(more, calls.topic)))
    async with members(command, broker, topics, **place) as workers:
        *_, (last_at, _) = await workers.until_committed(calls.ends, events=events + 1)
        again = last_at - workers.started
        await workers.stop()
    return Figures(
        cpu_us_per_event=(ended.cpu - begun.cpu) / max(events - before, 1) * 1e6,
        first_s=first,
        again_s=again,
        mib=ended.mib,
        peak_mib=ended.peak_mib,
        state_bytes=len(stored),
    )


async def measure_all(broker: Broker, wanted: list[Case], *, events: int, folder: Path) -> dict[str, Figures]:
    """Play the cases one after the other, and say so."""
    found = {}
    for number, case in enumerate(wanted):
        print(f"{case.name} ...", file=sys.stderr, flush=True)
        found[case.name] = await measure(broker, case, group=f"scale{number}", events=events, folder=folder)
    return found


def main() -> int:
    """Measure, print the table and write build/bench-scale.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m tests.bench.scale --live 100000 --only live",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--live", type=int, default=1_000_000, help="most live runs (default: 1000000; 1.3 GB in the changelog)")
    parser.add_argument("--events", type=int, default=300_000, help="events of each case (default: 300000)")
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name has this in it")
    parser.add_argument("--output", type=Path, default=BUILD / "bench-scale.json", help="default: %(default)s")
    given = parser.parse_args()
    wanted = [case for case in cases(given.live) if given.only in case.name]
    if not wanted:
        parser.error(f"nothing is left; the cases are: {'; '.join(case.name for case in cases(given.live))}")
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure_all(broker, wanted, events=given.events, folder=Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    table = Table("case", "CPU us/event", "first s", "again s", "MiB", "peak MiB", "state bytes")
    for name, figures in found.items():
        numbers = (figures.cpu_us_per_event, figures.first_s, figures.again_s, figures.mib, figures.peak_mib)
        table.add_row(name, *(f"{number:,.1f}" for number in numbers), f"{figures.state_bytes:,}")
    printing().print(table)
    write(given.output, {"broker": given.broker, "events": given.events, "cases": {n: asdict(f) for n, f in found.items()}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
