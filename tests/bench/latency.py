"""How long it takes from an event's publication until the decision that it brings can be read, at several loads.

`python -m tests.bench.latency --help`. Every event of a looping run that brings a decision is timed from when it was given to the
Kafka client to when the reader of decisions, which gates use too, gave its decision. Publisher and reader are in one process, on
the cores of the broker and the worker, so at high loads they wait for each other.
"""

import argparse
import asyncio
import contextlib
import gc
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from statistics import median, quantiles

import orjson
from rich.table import Table

from schemas.settings import Settings
from streams.connection import Connection
from streams.gateway.decision_reader import read_decisions
from streams.intake.outgoing import OutgoingEvent
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.comparing import PARTITIONS
from tests.bench.field import BUILD, worker
from tests.bench.measuring import ContenderError
from tests.bench.members import members
from tests.bench.publishing import Publisher
from tests.bench.report import printing, write
from tests.bench.workload import Workload, looping_runs, make

#: Events that a worker judges before it is timed, and seconds to wait for the last decisions.
WARM_UP = 20_000
_PATIENCE = 10.0

#: Upper ends of the classes of the histogram, in milliseconds.
CLASSES = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9)

Event = tuple[str, int]


async def measure(broker: Broker, *, rate: float, seconds: float, runs: int, group: str, folder: Path) -> list[float]:
    """Return the latencies in milliseconds of all decisions at a rate of events per second."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{group}.")
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    workload = Workload(events=WARM_UP + round(rate * seconds), runs=runs)
    looping = looping_runs(workload)
    events = list(make(workload, topics.tool_calls))
    calls = Publisher(connection, topics.tool_calls, partitions=PARTITIONS)
    await calls.publish(calls.keyed(events[:WARM_UP]))
    gc.freeze()  # looking through all these events takes Python a tenth of a second, which would count as the worker's
    sent: dict[Event, float] = {}
    latencies: dict[Event, float] = {}

    def note(event: OutgoingEvent, at: float) -> None:
        if event.run_id in looping and event.sequence is not None:
            sent.setdefault((event.run_id, event.sequence), at)

    async def read() -> None:
        async with aclosing(read_decisions(connection, topics, follow=True)) as published:
            async for item in published:
                event = (item.decision.run_id, item.decision.as_of.sequence or 0)
                if event in sent:
                    latencies.setdefault(event, (time.perf_counter() - sent[event]) * 1000)

    async with members(worker(), broker, topics, group=group, folder=folder) as workers:
        await workers.until_committed(calls.ends)
        reader = asyncio.create_task(read())
        await asyncio.sleep(1.0)  # the reader gets through the decisions of the warm-up, and the worker to rest
        await calls.publish_steadily(events[WARM_UP:], rate=rate, on_sent=note)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(workers.until_committed(calls.ends), _PATIENCE + seconds)
        await asyncio.sleep(0.5)  # decisions are there before their offsets are committed; the reader may be behind
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
    if not latencies:
        raise ContenderError(f"{group}: no decision was read")
    return list(latencies.values())


def summary(latencies: list[float]) -> dict[str, object]:
    """Return percentiles and a histogram; milliseconds."""
    percentiles = quantiles(latencies, n=1000, method="inclusive") if len(latencies) > 1 else latencies * 999
    classes = dict.fromkeys(CLASSES, 0)
    for latency in latencies:
        classes[next(end for end in CLASSES if latency <= end)] += 1
    return {
        "decisions": len(latencies),
        "p50_ms": round(median(latencies), 2),
        "p99_ms": round(percentiles[989], 2),
        "p999_ms": round(percentiles[998], 2),
        "max_ms": round(max(latencies), 2),
        "histogram": {f"<= {end:g} ms" if end < 1e9 else "more": count for end, count in classes.items()},
    }


async def measure_all(broker: Broker, given: argparse.Namespace, folder: Path) -> dict[str, dict[str, object]]:
    """Measure at each load, one after the other."""
    found = {}
    for number, percent in enumerate(given.loads):
        rate = given.maximum * percent / 100
        print(f"{percent:g} %, {rate:,.0f} events/s ...", file=sys.stderr, flush=True)
        latencies = await measure(
            broker, rate=rate, seconds=given.seconds, runs=given.runs, group=f"latency{number}", folder=folder
        )
        found[f"{percent:g} %"] = {"rate": rate, **summary(latencies)}
    return found


def main() -> int:
    """Measure, print the table and write build/bench-latency.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m tests.bench.latency --broker kafka --maximum 60000",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--maximum", type=float, default=50_000, help="events/s that the worker can do (default: 50000)")
    parser.add_argument("--loads", type=float, nargs="+", default=[10, 50, 80], metavar="PERCENT", help="default: 10 50 80")
    parser.add_argument("--seconds", type=float, default=15, help="of each load (default: 15)")
    parser.add_argument("--runs", type=int, default=200, help="runs side by side (default: 200)")
    parser.add_argument("--output", type=Path, default=BUILD / "bench-latency.json", help="default: %(default)s")
    given = parser.parse_args()
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure_all(broker, given, Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    table = Table("load", "events/s", "decisions", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "histogram")
    for load, row in found.items():
        classes = orjson.loads(orjson.dumps(row["histogram"]))
        text = ", ".join(f"{name}: {count:,}" for name, count in classes.items() if count)
        numbers = [f"{row[key]:,.1f}" for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms")]
        table.add_row(load, f"{row['rate']:,.0f}", f"{row['decisions']:,}", *numbers, text)
    printing().print(table)
    write(given.output, {"broker": given.broker, "loads": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
