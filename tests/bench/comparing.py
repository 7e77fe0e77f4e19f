"""Plays the rounds: every contender on the same input, in turn, and a look at what each of them decided."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress

from schemas.settings import Settings
from schemas.topics import Topics
from streams.connection import Connection
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.topics_admin import create_topics
from tests.bench.brokers import Broker
from tests.bench.contenders.arguments import Arguments
from tests.bench.decided import Decided, DecisionsTopic, EngineAlone
from tests.bench.field import Contender, environment_of
from tests.bench.measuring import ContenderError, Figure, Result, Run, figure_of, run_until_committed
from tests.bench.workload import Workload, make

PARTITIONS = 4
COMMIT_INTERVAL = 0.5

#: Events of the input that tells what a start costs, when that is a small part of every other input.
FEW = 2_000

#: Events per decision that the contenders without detection write, about as many as the detecting ones.
EVENTS_PER_DECISION = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is played: the whole input, and how many rounds."""

    workload: Workload
    rounds: int

    def part(self, share: float) -> Workload:
        """Return a part of the input in which a run has as many events, so that histories are as long."""
        events = max(2, round(self.workload.events * share))
        return replace(self.workload, events=events, runs=max(1, round(self.workload.runs * share)))


class Input:
    """An input topic with events on it, and the decisions topic beside it."""

    def __init__(self, name: str, workload: Workload, broker: Broker, *, partitions: int = PARTITIONS) -> None:
        self.settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=f"{name}.")
        self.workload = workload
        self.partitions = partitions
        self.truth = EngineAlone(self.settings, workload, partitions=partitions)
        self.decisions = DecisionsTopic(broker.bootstrap, self.settings.topics.decisions, partitions=partitions)

    async def fill(self) -> None:
        """Make the topics and publish the events."""
        connection = Connection.from_settings(self.settings)
        await create_topics(connection, self.settings.topics, partitions=self.partitions)
        await publish_events(connection, self._seen(), topics=self.settings.topics)

    def _seen(self) -> Iterator[OutgoingEvent]:
        for event in make(self.workload, self.settings.topics.tool_calls):
            self.truth.see(event)
            yield event

    def check(self, contender: Contender, decided: Decided) -> None:
        """Raise `ContenderError` unless a contender wrote the decisions that the input calls for."""
        wrong = ""
        if contender.detects and decided.ids != self.truth.ids:
            missing, invented = len(self.truth.ids - decided.ids), len(decided.ids - self.truth.ids)
            wrong = f"{missing} decisions missing and {invented} too many, of {len(self.truth.ids)}"
        elif not contender.detects and decided.records != self.workload.events // EVENTS_PER_DECISION:
            wrong = f"{decided.records} decisions, not {self.workload.events // EVENTS_PER_DECISION}"
        if wrong:
            raise ContenderError(f"{contender.name}: {wrong}")


async def compare(broker: Broker, plan: Plan, field: list[Contender], folder: Path) -> list[Result]:
    """Play all rounds and return the results in the order of the field."""
    inputs = {share: Input(f"share{share * 100:g}", plan.part(share), broker) for share in {each.share for each in field}}
    smallest = min(part.workload.events for part in inputs.values())
    few = Input("few", plan.part(min(FEW, smallest / 10) / plan.workload.events), broker)
    figures: dict[str, list[Figure]] = {contender.name: [] for contender in field}
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("publishing events", total=plan.rounds * len(field))
        for filled in (*inputs.values(), few):
            await filled.fill()
        for number, contender in itertools.product(range(plan.rounds), field):
            progress.update(task, description=f"round {number + 1}: {contender.name}")
            group = f"{''.join(filter(str.isalnum, contender.name)).lower()}-{number}"
            warm_up = await _measure(broker, contender, few, group=f"{group}-few", folder=folder)
            part = inputs[contender.share]
            full = await _measure(broker, contender, part, group=group, folder=folder)
            figures[contender.name].append(
                figure_of(full, warm_up, events=part.workload.events, warm_up_events=few.workload.events)
            )
            progress.advance(task)
    return [Result(name=contender.name, detects=contender.detects, rounds=tuple(figures[contender.name])) for contender in field]


async def _measure(broker: Broker, contender: Contender, given: Input, *, group: str, folder: Path) -> Run:
    arguments = arguments_for(broker, given.settings.topics, group=group, state_dir=folder / group)
    if not contender.detects:
        await make_compacted(broker, arguments.changelog)
    command, changed = contender.command(broker, arguments)
    run = await run_until_committed(
        command,
        environment_of(changed),
        bootstrap=broker.bootstrap,
        group=group,
        ends=given.truth.ends,
        log=arguments.state_dir / "log",
    )
    given.check(contender, await given.decisions.news())
    return run


def arguments_for(broker: Broker, topics: Topics, *, group: str, state_dir: Path, partitions: int = PARTITIONS) -> Arguments:
    """Return what a contender is told, and make its folder."""
    state_dir.mkdir(exist_ok=True)
    return Arguments(
        bootstrap=broker.bootstrap,
        group=group,
        input=topics.tool_calls,
        decisions=topics.decisions,
        changelog=f"{group}-changelog",
        state_dir=state_dir,
        every=EVENTS_PER_DECISION,
        decoder="msgspec",
        idempotent=broker.idempotent,
        partitions=partitions,
        session_timeout=broker.session_timeout,
        commit_interval=COMMIT_INTERVAL,
    )


async def make_compacted(broker: Broker, topic: str) -> None:
    """Make the changelog of a bare contender; the others have their own ideas of its name, and make it."""
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        await client.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"cleanup.policy": "compact"})])
    finally:
        await client.close()
