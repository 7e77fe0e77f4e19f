"""Verifies partitions: reads what was published, replays the inputs, compares; several partitions at a time."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from aiokafka import TopicPartition

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.audit.comparison import Comparison
from streams.audit.findings import Finding, Tally
from streams.audit.inputs import Input, InputReader, InputRecord
from streams.audit.log_reader import LogReader
from streams.audit.policy_timeline import Era, in_force_from, timeline
from streams.audit.processes import OnProgress, in_processes
from streams.audit.published import PublishedDecisions, payload_of_record
from streams.audit.ranges import PartitionRange
from streams.audit.replayer import Doubt, Replayer
from streams.connection import Connection
from streams.detection.engine import ENGINE_VERSION
from streams.detection.facts import RunPartition
from streams.transport import BareRecord, delivered

#: Findings kept of a partition; beyond it they are only counted.
MAX_FINDINGS = 10_000

_LOOK_INTERVAL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """One partition to be verified.

    `partitions` is how many there are, `settled` the offsets of tool calls and compactions below which the workers have published
    everything, `run_id` limits the audit to one run, `policy` is what was in force before the first marker if the decisions there
    name it, `wait_until` the wall-clock time up to which decisions that are not there yet are waited for.
    """

    settings: Settings
    partitions: int
    range: PartitionRange
    settled: tuple[int, int]
    run_id: str | None = None
    policy: dict[str, Any] | None = None
    wait_until: float = 0.0

    @property
    def records(self) -> int:
        """How many records there are to read."""
        return self.range.events + self.range.decisions[1] - self.range.decisions[0]


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What the verification of one partition found."""

    partition: int
    tally: Tally
    findings: list[Finding]


def verify_partition(task: PartitionTask, on_progress: OnProgress = lambda records: None) -> PartitionResult:
    """Verify one partition; raises `KafkaError` and `LogError`."""
    with LogReader(Connection.from_settings(task.settings)) as reader:
        return _Verification(task, reader, on_progress).run()


def verify_partitions(
    tasks: Sequence[PartitionTask],
    *,
    processes: int | None = None,
    on_progress: OnProgress = lambda records: None,
) -> Iterator[PartitionResult]:
    """Verify partitions, each in one of `processes` (by default as many as there are cores), and yield them as they are done."""
    records = [task.records for task in tasks]
    yield from in_processes(verify_partition, tasks, records=records, processes=processes, on_progress=on_progress)


class _Verification:
    """The steps of one partition's verification."""

    def __init__(self, task: PartitionTask, reader: LogReader, on_progress: OnProgress) -> None:
        self.task = task
        self.reader = reader
        self.on_progress = on_progress
        self.topics = task.settings.topics
        self.number = task.range.partition
        self.key = None if task.run_id is None else task.run_id.encode()
        self.findings: list[Finding] = []
        self.slices = _DecisionSlices(reader, self.topics.decisions, self.number)

    def run(self) -> PartitionResult:
        given = None if self.task.policy is None else PolicyDocument.from_mapping(self.task.policy)
        covered = self.task.range
        published = PublishedDecisions(
            self.topics.decisions,
            self.number,
            start=covered.start,
            end=covered.end,
            log_start=covered.log_start,
            open_end=covered.open_end,
            before=None if given is None else given.version,
        )
        try:
            for record in self._raw(self.topics.decisions, *covered.decisions):
                published.take(record)
            before = given if given is not None and published.unmarked <= {given.version} else None
            eras = in_force_from(timeline(published.markers, before=before), covered.start)
            return self._compare(published, eras)
        finally:
            published.close()

    def _compare(self, published: PublishedDecisions, eras: list[Era]) -> PartitionResult:
        covered, settled = self.task.range, self.task.settled
        comparison = Comparison(
            published,
            settled=(max(settled[0], published.decided_until), settled[1]),
            known_from=_known_from(eras),
            read_payload=self.slices.payload,
            place_of=lambda offset: f"{self.topics.decisions}[{self.number}]@{offset}",
        )
        replayer = Replayer(
            eras,
            partition=RunPartition(self.topics.tool_calls, self.number),
            start=covered.start,
            run_ttl_ms=int(self.task.settings.run_ttl * 1000),
            was_published=published.has,
            beginnings=published.beginnings(),
        )
        intake = InputReader(settings=self.task.settings, partition=self.number, partitions=self.task.partitions)
        # A policy may have come into force at compactions that were read after the end of the range was fixed.
        behind = max(covered.compactions[1], *(era.compactions_offset for era in eras))
        calls = intake.read_tool_calls(self._raw(self.topics.tool_calls, covered.start, covered.end), known=replayer.runs)
        for recomputed in replayer.replay(calls, self._compactions(intake, covered.compactions[0], behind)):
            self._keep(comparison.take(recomputed))
        comparison.tally.events = replayer.fed
        self._keep(comparison.finish())
        if published.dated_behind:
            _, end = self.reader.bounds(self.topics.tool_calls, self.number)
            self._keep(comparison.finish_behind(end))
        self._wait_for(comparison)
        comparison.tally.dead_letters, comparison.tally.misrouted = intake.dead_letters, intake.misrouted
        return PartitionResult(self.number, comparison.tally, self.findings)

    def _keep(self, findings: Iterator[Finding]) -> None:
        for finding in findings:
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(finding)

    def _raw(self, topic: str, start: int, end: int) -> Iterator[BareRecord]:
        return chain.from_iterable(self._slices(topic, start, end))

    def _slices(self, topic: str, start: int, end: int) -> Iterator[Iterable[BareRecord]]:
        key = self.key
        for got in self.reader.read(topic, self.number, start, end):
            yield got.raw() if key is None else (one for one in got.raw() if one.key == key or one.key is None)
            self.on_progress(min(got.next_offset, end) - start)
            start = got.next_offset

    def _compactions(self, intake: InputReader, start: int, end: int) -> Iterator[Input]:
        place = TopicPartition(self.topics.compactions, self.number)
        for record in self._raw(place.topic, start, end):
            if (event := intake.read(delivered(place, record))) is not None:
                yield event

    def _wait_for(self, comparison: Comparison) -> None:
        """Look for decisions that were published after the end of the range was fixed."""
        at = self.task.range.decisions[1]
        while comparison.awaited:
            _, end = self.reader.bounds(self.topics.decisions, self.number)
            for record in self.reader.records(self.topics.decisions, self.number, at, end):
                self._keep(comparison.came_late(payload_of_record(record), record.offset))
            at = end
            if time.time() > self.task.wait_until:
                break
            if comparison.awaited:
                time.sleep(_LOOK_INTERVAL)
        self._keep(comparison.give_up())


class _DecisionSlices:
    """Payloads of the decisions topic by offset; those that are asked for usually lie close together."""

    def __init__(self, reader: LogReader, topic: str, partition: int) -> None:
        self._reader, self._topic, self._partition = reader, topic, partition
        self._records: dict[int, InputRecord] = {}

    def payload(self, offset: int) -> dict[str, Any]:
        """Return the payload of a decision that was read before."""
        if offset not in self._records:
            _, end = self._reader.bounds(self._topic, self._partition)
            got = next(self._reader.read(self._topic, self._partition, offset, end))
            self._records = {record.offset: record for record in got.records()}
        return payload_of_record(self._records[offset])


def _known_from(eras: Sequence[Era]) -> tuple[int, Doubt] | None:
    """Return the first offset from which on policies and engine are known, and why not before."""
    known: tuple[int, Doubt] | None = None
    for era, following in zip(eras, (*eras[1:], None), strict=True):
        doubt: Doubt | None = "policy" if era.policy is None else None
        if doubt is None and era.engine_version not in (None, ENGINE_VERSION):
            doubt = "engine"
        if doubt is not None:
            known = (2**63 - 1 if following is None else following.tool_calls_offset, doubt)
    return known
