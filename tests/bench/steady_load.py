"""CPU that a worker and the bare client need for the same steady load: `python -m tests.bench.steady_load --help`.

Both are up and have judged some events before the clock starts. The bare client writes as many decisions; msgspec decodes for it.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.table import Table

from schemas.settings import Settings
from streams.connection import Connection
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.comparing import PARTITIONS, make_compacted
from tests.bench.field import BUILD, FIELD, Contender
from tests.bench.measuring import ContenderError
from tests.bench.members import members
from tests.bench.publishing import Publisher
from tests.bench.report import OURS, RIVALS, printing, write
from tests.bench.workload import Workload, make

#: Events before the clock starts.
WARM_UP = 20_000

BARE = RIVALS["vs_bare_aiokafka"]


async def measure(broker: Broker, contender: Contender, *, rate: float, seconds: float, group: str, folder: Path) -> float:
    """Return the part of a core that a contender keeps busy."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{group}.")
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    await make_compacted(broker, f"{group}-changelog")
    events = list(make(Workload(events=WARM_UP + round(rate * seconds), runs=1_000), topics.tool_calls))
    calls = Publisher(connection, topics.tool_calls, partitions=PARTITIONS)
    await calls.publish(calls.keyed(events[:WARM_UP]))
    async with members(contender.command, broker, topics, group=group, folder=folder) as member:
        await member.until_committed(calls.ends)
        began, before = time.perf_counter(), member.usage().cpu
        await calls.publish_steadily(events[WARM_UP:], rate=rate)
        await member.until_committed(calls.ends)
        return (member.usage().cpu - before) / (time.perf_counter() - began)


async def measure_all(broker: Broker, given: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Measure both in turn."""
    both = [contender for contender in FIELD if contender.name in (OURS, BARE)]
    found: dict[str, list[float]] = {contender.name: [] for contender in both}
    for number in range(given.rounds):
        for place, contender in enumerate(both):
            load = {"rate": given.rate, "seconds": given.seconds}
            found[contender.name].append(await measure(broker, contender, **load, group=f"steady{number}{place}", folder=folder))
    return found


def main() -> int:
    """Measure, print the table and write build/bench-steady.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.steady_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python -m tests.bench.steady_load --broker kafka --rate 5000",
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--rate", type=float, default=5_000, help="events/s (default: 5000)")
    parser.add_argument("--seconds", type=float, default=15, help="of each round (default: 15)")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--output", type=Path, default=BUILD / "bench-steady.json", help="default: %(default)s")
    given = parser.parse_args()
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure_all(broker, given, Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    ratio = round(median(found[OURS]) / median(found[BARE]), 3)
    table = Table("contender", "of a core", "rounds", title=f"{given.rate:,.0f} events/s", title_justify="left")
    for name, parts in found.items():
        table.add_row(name, f"{median(parts):.1%}", ", ".join(f"{part:.1%}" for part in parts))
    printing().print(table)
    print(f"{OURS} needs {ratio:.2f} times the CPU of {BARE}")
    write(given.output, {"broker": given.broker, "rate": given.rate, "vs_bare_aiokafka": ratio, "parts_of_a_core": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
