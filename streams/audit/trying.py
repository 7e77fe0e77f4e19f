"""Tries another policy on the recorded events of partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Origin
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from streams.audit.input_order import in_order
from streams.audit.inputs import Input, InputReader, InputRecord
from streams.audit.log_reader import LogReader
from streams.audit.policy_timeline import Era, in_force_from, timeline
from streams.audit.processes import OnProgress, in_processes
from streams.audit.replayer import Replayer
from streams.audit.verify import PartitionTask
from streams.audit.what_if import Change, Difference, WhatIf
from streams.connection import Connection
from streams.detection.facts import RunPartition

#: Changes kept of a partition; beyond it they are only counted.
MAX_CHANGES = 10_000


class UnknownPolicyError(ValueError):
    """It is not known which policy was in force; the message says where and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfTask:
    """One partition, and the policy to be tried; `base` is compared with it in place of the policies that were in force."""

    partition: PartitionTask
    policy: dict[str, Any]
    base: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """What would change in one partition."""

    partition: int
    difference: Difference
    changes: list[Change]


def try_policy(
    tasks: Sequence[WhatIfTask],
    *,
    processes: int | None = None,
    on_progress: OnProgress = lambda records: None,
) -> Iterator[WhatIfResult]:
    """Try a policy on partitions and yield the results as they come; raises `UnknownPolicyError`, `LogError` and `KafkaError`."""
    records = [task.partition.records for task in tasks]
    yield from in_processes(try_on_partition, tasks, records=records, processes=processes, on_progress=on_progress)


def try_on_partition(task: WhatIfTask, on_progress: OnProgress = lambda records: None) -> WhatIfResult:
    """Try a policy on one partition."""
    with LogReader(Connection.from_settings(task.partition.settings)) as reader:
        return _Trial(task, reader, on_progress).run()


class _Trial:
    def __init__(self, task: WhatIfTask, reader: LogReader, on_progress: OnProgress) -> None:
        self.task = task
        self.of = task.partition
        self.topics = task.partition.settings.topics
        self.number = task.partition.range.partition
        self.reader = reader
        self.on_progress = on_progress
        self.key = None if self.of.run_id is None else self.of.run_id.encode()
        self.statuses: dict[int, str | None] = {}

    def run(self) -> WhatIfResult:
        covered = self.of.range
        eras = self._eras()
        trial = WhatIf(self._replayer(eras), self._replayer([Era(policy=PolicyDocument.from_mapping(self.task.policy))]))
        intake = InputReader(settings=self.of.settings, partition=self.number, partitions=self.of.partitions)
        events = in_order(
            self._events(intake, self.topics.tool_calls, covered.start, covered.end),
            self._events(intake, self.topics.compactions, *covered.compactions),
            eras,
        )
        changes: list[Change] = []
        for event in events:
            status = self.statuses.pop(event.facts.offset, None) if event.facts.kind == "ended" else None
            _keep(changes, trial.feed(event, status=status))
        _keep(changes, trial.finish())
        return WhatIfResult(self.number, trial.difference, changes)

    def _eras(self) -> list[Era]:
        if self.task.base is not None:
            return [Era(policy=PolicyDocument.from_mapping(self.task.base))]
        markers = []
        for record in self._records(self.topics.decisions, *self.of.range.decisions, keys=(None,)):
            try:
                marker = PolicyApplied.from_record(record.value or b"", record.headers)
            except InvalidEventError:
                continue
            if marker.tool_calls_offset < self.of.range.end:
                origin = Origin(topic=record.topic, partition=record.partition, offset=record.offset)
                markers.append((origin, marker))
        eras = in_force_from(timeline(markers), self.of.range.start)
        if eras[0].policy is None:
            raise UnknownPolicyError(
                f"{self.topics.tool_calls}[{self.number}]@{self.of.range.start}: no policy.applied marker tells which policy was"
                " in force; give it with --base"
            )
        return eras

    def _replayer(self, eras: list[Era]) -> Replayer:
        return Replayer(
            eras,
            partition=RunPartition(self.topics.tool_calls, self.number),
            start=self.of.range.start,
            run_ttl_ms=int(self.of.settings.run_ttl * 1000),
        )

    def _events(self, intake: InputReader, topic: str, start: int, end: int) -> Iterator[Input]:
        for record in self._records(topic, start, end, keys=None if self.key is None else (self.key,)):
            event = intake.read(record)
            if event is not None:
                if event.facts.kind == "ended":
                    self.statuses[record.offset] = _status(record)
                yield event

    def _records(self, topic: str, start: int, end: int, *, keys: tuple[bytes | None, ...] | None) -> Iterator[InputRecord]:
        for got in self.reader.read(topic, self.number, start, end):
            yield from got.records() if keys is None else (record for record in got.records() if record.key in keys)
            self.on_progress(min(got.next_offset, end) - start)
            start = got.next_offset


def _keep(changes: list[Change], found: Iterator[Change]) -> None:
    for change in found:
        if len(changes) < MAX_CHANGES:
            changes.append(change)


def _status(record: InputRecord) -> str | None:
    """Return what a `run.ended` says about how the run ended."""
    body = orjson.loads(record.value or b"{}")
    data = body.get("data", body)  # binary mode: the value is the data
    status = data.get("status") if isinstance(data, dict) else None
    return status if isinstance(status, str) else None
