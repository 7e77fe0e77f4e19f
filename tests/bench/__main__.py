"""Compares Loopwarden's worker with what its users would pick instead: `python -m tests.bench --help`."""

import argparse
import asyncio
import itertools
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from schemas.topics import Topics, partition_of
from streams.connection import Connection
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker, fresh_broker
from tests.bench.contenders.arguments import Arguments
from tests.bench.field import BUILD, FIELD, Contender, NotHereError, environment_of
from tests.bench.measuring import Figure, Result, Run, figure_of, run_until_committed
from tests.bench.workload import Workload, make

PARTITIONS = 4
COMMIT_INTERVAL = 0.5

#: Events of the input that tells what a start costs.
FEW = 2_000

#: Events per decision that the contenders without detection write, about as many as the detecting ones.
EVENTS_PER_DECISION = 40


class Input:
    """An input topic with events on it."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.topics = Topics(prefix=f"{name}.")
        self.workload = workload
        self.ends: Counter[TopicPartition] = Counter()

    async def fill(self, broker: Broker) -> None:
        """Make the topics and publish the events."""
        connection = Connection(bootstrap_servers=broker.bootstrap)
        await create_topics(connection, self.topics, partitions=PARTITIONS)
        await publish_events(connection, self._counted(), topics=self.topics)

    def _counted(self) -> Iterator[OutgoingEvent]:
        for event in make(self.workload, self.topics.tool_calls):
            self.ends[TopicPartition(event.topic, partition_of(event.run_id, PARTITIONS))] += 1
            yield event


async def measure(broker: Broker, contender: Contender, given: Input, *, group: str, folder: Path) -> Run:
    """Run a contender on an input under a group of its own."""
    state_dir = folder / group
    state_dir.mkdir()
    arguments = Arguments(
        bootstrap=broker.bootstrap,
        group=group,
        input=given.topics.tool_calls,
        decisions=given.topics.decisions,
        changelog=f"{group}-changelog",
        state_dir=state_dir,
        every=EVENTS_PER_DECISION,
        decoder="msgspec",
        idempotent=broker.idempotent,
        partitions=PARTITIONS,
        session_timeout=broker.session_timeout,
        commit_interval=COMMIT_INTERVAL,
    )
    if not contender.detects:
        await _make_compacted(broker, arguments.changelog)
    command, changed = contender.command(broker, arguments)
    return await run_until_committed(
        command, environment_of(changed), bootstrap=broker.bootstrap, group=group, ends=given.ends, log=state_dir / "log"
    )


async def _make_compacted(broker: Broker, topic: str) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        await client.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"cleanup.policy": "compact"})])
    finally:
        await client.close()


async def compare(broker: Broker, given: argparse.Namespace, field: list[Contender], folder: Path) -> list[Result]:
    """Play all rounds, the contenders in turn, and return the results in the order of the field."""
    workload = Workload(events=given.events, runs=given.runs, raw=given.raw)
    inputs = {share: Input(f"share{share * 100:g}", _part(workload, share)) for share in {contender.share for contender in field}}
    few = Input("few", _part(workload, FEW / workload.events))
    for filled in (*inputs.values(), few):
        await filled.fill(broker)
    figures: dict[str, list[Figure]] = {contender.name: [] for contender in field}
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=given.rounds * len(field))
        for number, contender in itertools.product(range(given.rounds), field):
            progress.update(task, description=f"round {number + 1}: {contender.name}", advance=1)
            tag = f"{''.join(filter(str.isalnum, contender.name)).lower()}-{number}"
            warm_up = await measure(broker, contender, few, group=f"{tag}-few", folder=folder)
            part = inputs[contender.share]
            full = await measure(broker, contender, part, group=tag, folder=folder)
            figures[contender.name].append(figure_of(full, warm_up, events=sum(part.ends.values())))
    return [Result(name=contender.name, detects=contender.detects, rounds=tuple(figures[contender.name])) for contender in field]


def _part(workload: Workload, share: float) -> Workload:
    # As many events per run, so that histories are as long.
    return replace(workload, events=max(2, round(workload.events * share)), runs=max(1, round(workload.runs * share)))


def ratios(results: list[Result]) -> dict[str, float]:
    """Return how many times as fast as each rival the worker with the memory store is."""
    rates = {result.name: result.rate for result in results}
    ours = rates.get("Loopwarden, memory")
    rivals = {
        "vs_bare_aiokafka": "bare aiokafka, msgspec",
        "vs_bare_aiokafka_pydantic": "bare aiokafka, pydantic",
        "vs_kafka_streams": "Kafka Streams",
        "vs_quix": "Quix Streams",
        "vs_stock_faust": "stock Faust",
    }
    return {} if ours is None else {key: round(ours / rates[name], 3) for key, name in rivals.items() if name in rates}


def show(results: list[Result], *, title: str) -> None:
    """Print the table."""
    compared = {result.name: result.rate for result in results}
    ours = compared.get("Loopwarden, memory")
    table = Table(
        "contender",
        "job",
        "events/s",
        "spread",
        "CPU us/event",
        "start s",
        "peak MiB",
        "Loopwarden is",
        title=title,
        title_justify="left",
    )
    for result in results:
        last = result.rounds[-1]
        table.add_row(
            result.name,
            "detects" if result.detects else "bare",
            f"{result.rate:,.0f}",
            f"{result.spread:.0%}",
            f"{result.cpu_us:.1f}",
            f"{last.start:.1f}",
            f"{last.peak_mib:.0f}",
            "" if ours is None or result.rate == ours else f"{ours / result.rate:.2f}x",
        )
    Console().print(table)


def prepared(given: argparse.Namespace) -> list[Contender]:
    """Return the contenders that can run here, and say which cannot."""
    field = []
    for contender in FIELD:
        if given.broker not in contender.brokers or not any(
            part.lower() in contender.name.lower() for part in given.only or [""]
        ):
            continue
        try:
            contender.setting_up()
        except (NotHereError, OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {contender.name}: {error}", file=sys.stderr)
            continue
        field.append(contender)
    return field


def main() -> None:
    """Run the comparison, print the table and write build/bench.json."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--events", type=int, default=300_000, help="events of the input (default: 300000)")
    parser.add_argument("--runs", type=int, default=1_000, help="runs that they belong to (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--raw", action="store_true", help="events with arguments and results in place of their hashes")
    parser.add_argument("--only", action="append", metavar="NAME", help="contenders whose name has this in it; may be repeated")
    given = parser.parse_args()
    field = prepared(given)
    with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
        results = asyncio.run(compare(broker, given, field, Path(folder)))
    kind = "raw" if given.raw else "hash-only"
    show(
        results,
        title=f"{given.events:,} {kind} events of {given.runs:,} runs, {given.rounds} rounds, {given.broker} broker on the same cores",
    )
    BUILD.mkdir(exist_ok=True)
    report = {"options": vars(given), "ratios": ratios(results), "contenders": [result.as_json() for result in results]}
    (BUILD / "bench.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
