"""What a worker costs with many live runs, long histories, many partitions, one hot run, and company.

`python -m tests.bench.scale --help`. Live runs are put into the changelog with full histories before the worker starts. "First"
are the seconds from the start of its process until it has recovered them and committed new events, "again" the same after a
graceful stop, with its disk as it left it. CPU and memory are of the second start, the CPU from its first commit to the last: the
first also looks once through all runs, for those that were judged under another policy.

A run that is not active costs memory only. One that is active now and then has its state decoded, encoded and written for an
event or two; the cases "a tenth active", "all active" and "new runs only" show what that comes to.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from tests.compiled_modules import refuse_stale_modules
from tests.faults.making.stored_states import working_state

#: Numbers of live runs: the last one is what the goals are about.
LIVE = (10_000, 100_000, 1_000_000)

#: Runs that have events while the others only live.
ACTIVE = 1_000

#: Events of the first start.
FEW = 2_000

#: What the others are compared with.
BASE = "1,000 live runs"

#: Events of each active run when only a tenth of the runs is active.
EVENTS_OF_A_TENTH = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One line of the table: `live` runs with full histories, of which `active` have the events.

    `events` is how many there are at least.
    """

    name: str
    live: int = ACTIVE
    active: int = ACTIVE
    store: Literal["memory", "rocksdb"] = "memory"
    partitions: int = PARTITIONS
    history: int = 30
    workers: int = 1
    events: int = 0


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
    found = [Case(name=BASE), Case(name=f"{BASE}, RocksDB", store="rocksdb")]
    for size in [*(size for size in LIVE if size < live), live]:
        name = live_runs(size)
        found.append(Case(name=name, live=size))
        found.append(Case(name=f"{name}, RocksDB", live=size, store="rocksdb"))
        tenth = size // 10
        found.append(Case(name=f"{name}, a tenth active", live=size, active=tenth, events=EVENTS_OF_A_TENTH * tenth))
        found.append(Case(name=f"{name}, all active", live=size, active=size))
    found.append(Case(name="new runs only", live=0, active=0))
    found += [Case(name=f"historySize {size}", history=size) for size in (100, 300)]
    found += [Case(name=f"{count} partitions", partitions=count) for count in (64, 256)]
    found.append(Case(name="one hot run", live=1, active=1))
    found += [Case(name=f"{count} workers", workers=count) for count in (2, 4)]
    return found


def live_runs(size: int) -> str:
    """Return the name of the case with so many live runs."""
    return f"{size:,} live runs"


async def measure(broker: Broker, case: Case, *, group: str, events: int, folder: Path) -> Figures:
    """Play one case on topics of its own; `events` is how many there are, unless the case has more."""
    events = max(events, case.events)
    active = case.active or events // 2
    history = case.history if case.live else 0
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
    few = Workload(events=FEW, runs=active, first_call=history)
    await calls.publish(calls.keyed(make(few, calls.topic)))

    command = worker(f"{case.store}://", policy)
    start = partial(members, command, broker, topics, group=group, folder=folder, partitions=case.partitions, count=case.workers)
    async with start() as workers:
        [(first_at, _), *_] = await workers.until_committed(calls.ends, events=1)
        first = first_at - workers.started
        await workers.until_committed(calls.ends)
        await workers.until_idle()
        await workers.stop()
    more = replace(few, events=events, first_call=history + FEW // 2 // active + 1)
    await calls.publish(calls.keyed(make(more, calls.topic)))
    async with start() as workers:
        *_, (again_at, before) = await workers.until_committed(calls.ends, events=FEW + 1)
        again, begun = again_at - workers.started, workers.usage()
        await workers.until_committed(calls.ends)
        ended = workers.usage()
        await workers.stop()
    return Figures(
        cpu_us_per_event=(ended.cpu - begun.cpu) / max(FEW + events - before, 1) * 1e6,
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """A figure with the most that it may be."""

    what: str
    value: float
    goal: float


def goals(found: Mapping[str, Figures]) -> list[Goal]:
    """Return the goals whose cases were measured."""
    most = max((size for size in LIVE if live_runs(size) in found), default=0)
    many, many_on_disk, base = found.get(live_runs(most)), found.get(f"{live_runs(most)}, RocksDB"), found.get(BASE)
    listed = []
    if base is not None:
        listed.append(Goal(what="stored bytes of a run at historySize 30", value=base.state_bytes, goal=2048))
    base_cost = max(base.cpu_us_per_event, 1e-3) if base is not None else 1.0  # an input of one commit has no cost
    if base is not None and many is not None:
        per_run = (many.mib - base.mib) * 2**20 / (most - ACTIVE)
        listed.append(Goal(what=f"RSS bytes of a live run ({most:,}, memory)", value=per_run, goal=4096))
        ratio = many.cpu_us_per_event / base_cost
        listed.append(Goal(what=f"cost of an event, {most:,} live runs to 1,000", value=ratio, goal=1.25))
    if base is not None and (long := found.get("historySize 300")) is not None:
        ratio = long.cpu_us_per_event / base_cost
        listed.append(Goal(what="cost of an event, historySize 300 to 30", value=ratio, goal=1.25))
    for name, figures, seconds in (("memory", many, 60), ("RocksDB", many_on_disk, 90)):
        if figures is not None:
            listed.append(Goal(what=f"seconds to recover {most:,} runs, {name}", value=figures.first_s, goal=seconds))
    return listed


def main() -> int:
    """Measure, print the tables and write build/bench-scale.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m tests.bench.scale --broker kafka --live 100000 --only 'live runs' --add",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--live", type=int, default=LIVE[-1], help="most live runs (default: 1000000; 1.3 GB in the changelog)")
    parser.add_argument("--events", type=int, default=300_000, help="events of each case (default: 300000)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="cases whose ^name$ has this in it; may be given again",
    )
    parser.add_argument("--add", action="store_true", help="keep the other cases that the output has")
    parser.add_argument("--output", type=Path, default=BUILD / "bench-scale.json", help="default: %(default)s")
    given = parser.parse_args()
    wanted = [case for case in cases(given.live) if not given.only or any(name in f"^{case.name}$" for name in given.only)]
    if not wanted:
        parser.error(f"nothing is left; the cases are: {'; '.join(case.name for case in cases(given.live))}")
    refuse_stale_modules()
    measured_with = {"broker": given.broker, "events": given.events}
    found: dict[str, Figures] = {}
    if given.add and given.output.exists():
        before = json.loads(given.output.read_text())
        if any(before[name] != value for name, value in measured_with.items()):
            parser.error(f"{given.output} is of another broker, or has another number of events: leave out --add")
        found = {name: Figures(**figures) for name, figures in before["cases"].items()}
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            found |= asyncio.run(measure_all(broker, wanted, events=given.events, folder=Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    table = Table("case", "CPU us/event", "first s", "again s", "MiB", "peak MiB", "state bytes")
    order = [case.name for case in cases(given.live)]
    for name, figures in sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1):
        numbers = (figures.cpu_us_per_event, figures.first_s, figures.again_s, figures.mib, figures.peak_mib)
        table.add_row(name, *(f"{number:,.1f}" for number in numbers), f"{figures.state_bytes:,}")
    printing().print(table)
    reached = goals(found)
    if reached:
        table = Table("goal", "at most", "measured", "")
        for goal in reached:
            table.add_row(goal.what, f"{goal.goal:,}", f"{goal.value:,.2f}", "met" if goal.value <= goal.goal else "not met")
        printing().print(table)
    figures_of = {name: asdict(figures) for name, figures in found.items()}
    write(given.output, {**measured_with, "cases": figures_of, "goals": [asdict(goal) for goal in reached]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
