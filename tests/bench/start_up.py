"""From the start of a worker's process to its first decision, empty state, fresh group: `python -m tests.bench.start_up --help`.

The events of a loop are on the topic before. The decision is read by a client that was there before too.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from statistics import median

from schemas.settings import Settings
from streams.connection import Connection
from streams.gateway.decision_reader import read_decisions
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.comparing import PARTITIONS
from tests.bench.field import BUILD, worker
from tests.bench.measuring import ContenderError
from tests.bench.members import members
from tests.bench.publishing import Publisher
from tests.bench.report import write
from tests.bench.workload import Workload, make

#: Runs and events: each of the looping ones gets far enough for a block.
RUNS = 40
EVENTS = 4_000

_PATIENCE = 60.0


async def measure(broker: Broker, *, group: str, folder: Path) -> float:
    """Return the seconds of one start."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{group}.")
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    calls = Publisher(connection, topics.tool_calls, partitions=PARTITIONS)
    await calls.publish(calls.keyed(make(Workload(events=EVENTS, runs=RUNS), topics.tool_calls)))

    async def first_decision() -> float:
        async with aclosing(read_decisions(connection, topics, follow=True)) as published:
            async for _ in published:
                return time.perf_counter()
        raise AssertionError("following a topic does not end")

    reading = asyncio.create_task(first_decision())
    try:
        async with members(worker(), broker, topics, group=group, folder=folder) as workers:
            await workers.until_committed(calls.ends)
            return await asyncio.wait_for(reading, _PATIENCE) - workers.started
    finally:
        reading.cancel()


async def measure_all(broker: Broker, rounds: int, folder: Path) -> list[float]:
    """Measure one start after the other."""
    return [await measure(broker, group=f"start{number}", folder=folder) for number in range(rounds)]


def main() -> int:
    """Measure, print a line and write build/bench-start.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.start_up",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m tests.bench.start_up --broker kafka",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--output", type=Path, default=BUILD / "bench-start.json", help="default: %(default)s")
    given = parser.parse_args()
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            seconds = asyncio.run(measure_all(broker, given.rounds, Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    each = ", ".join(f"{one:.2f}" for one in seconds)
    print(f"start to first decision on the {given.broker} broker: median {median(seconds):.2f} s ({each})")
    write(given.output, {"broker": given.broker, "median_s": round(median(seconds), 3), "seconds": seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
