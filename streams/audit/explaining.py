"""Reads what a decision rests on: its record, the policy markers before it, and the run's events from beginning to decision."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision, Origin
from schemas.policy_applied import PolicyApplied
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit.explanation import Aftermath, Explanation, Retelling, Told, aftermath_of, policy_behind
from streams.audit.input_order import in_order
from streams.audit.inputs import Input, InputReader, InputRecord
from streams.audit.log_reader import LogReader
from streams.audit.policy_timeline import Era, in_force_from, timeline
from streams.audit.ranges import AROUND_MS
from streams.audit.replayer import Replayer
from streams.connection import Connection
from streams.detection.engine import ENGINE_VERSION
from streams.detection.facts import RunPartition
from streams.topics_admin import partition_count

#: Records of the partition that are read after the decision, to see what the gateway did.
AFTER_RECORDS = 50_000

OnProgress = Callable[[int], None]


class ExplainError(ValueError):
    """There is no such decision, or nothing to explain; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class _Published:
    decision: Decision
    origin: Origin
    timestamp: int


class Explainer:
    """Explains decisions of one cluster; use it in a `with` block of a `LogReader`."""

    def __init__(self, reader: LogReader, settings: Settings, *, on_progress: OnProgress = lambda records: None) -> None:
        self.reader = reader
        self.settings = settings
        self.topics = settings.topics
        self.on_progress = on_progress
        self.partitions = reader.run(partition_count(Connection.from_settings(settings), self.topics))

    # -- which decision --------------------------------------------------------------------------------------------------------

    def explain(self, decision_id: str | None = None, *, run_id: str | None = None, partition: int | None = None) -> Explanation:
        """Explain a decision, or the latest of a run that is no release.

        Without run and partition all partitions of the decisions topic are searched for the id. Raises `ExplainError`,
        `TopicsError` and `KafkaError`.
        """
        if partition is not None and not 0 <= partition < self.partitions:
            raise ExplainError(f"partition {partition}: there are {self.partitions} (0 to {self.partitions - 1})")
        if run_id is None and decision_id is not None:
            run_id, partition = self._find(decision_id, [partition] if partition is not None else list(range(self.partitions)))
        if run_id is None:
            raise ExplainError("name a decision or a run")
        home = partition_of(run_id, self.partitions) if partition is None else partition
        published, markers = self._decisions_of(run_id, home)
        chosen = self._choose(published, decision_id, run_id, home)
        return self._tell(chosen, published, timeline(markers), home)

    def _find(self, decision_id: str, partitions: list[int]) -> tuple[str, int]:
        wanted = decision_id.encode()
        for number in partitions:
            for record in self._records(self.topics.decisions, number, *self.reader.bounds(self.topics.decisions, number)):
                found = _decision(record) if wanted in (record.value or b"") else None
                if found is not None and found.decision_id == decision_id:
                    return found.run_id, number
        where = f"partition {partitions[0]}" if len(partitions) == 1 else f"any of the {len(partitions)} partitions"
        raise ExplainError(f"decision {decision_id}: not in {where} of {self.topics.decisions} (it may have expired)")

    def _decisions_of(self, run_id: str, number: int) -> tuple[list[_Published], list[tuple[Origin, PolicyApplied]]]:
        key = run_id.encode()
        published: list[_Published] = []
        seen: set[str] = set()
        markers = []
        for record in self._records(self.topics.decisions, number, *self.reader.bounds(self.topics.decisions, number)):
            origin = Origin(topic=record.topic, partition=number, offset=record.offset)
            if record.key is None and (marker := _marker(record)) is not None:
                markers.append((origin, marker))
            elif record.key == key and (found := _decision(record)) is not None and found.decision_id not in seen:
                seen.add(found.decision_id)  # copies after a crash are one decision
                published.append(_Published(found, origin, record.timestamp))
        return published, markers

    def _choose(self, published: list[_Published], decision_id: str | None, run_id: str, home: int) -> _Published:
        if decision_id is not None:
            for one in published:
                if one.decision.decision_id == decision_id:
                    return one
            raise ExplainError(f"decision {decision_id}: run {run_id} has none of that id in {self.topics.decisions}[{home}]")
        for one in reversed(published):
            if one.decision.action != "release":
                return one
        raise ExplainError(f"run {run_id}: nothing was decided about it in {self.topics.decisions}[{home}]")

    # -- its story -------------------------------------------------------------------------------------------------------------

    def _tell(self, chosen: _Published, published: list[_Published], eras: list[Era], home: int) -> Explanation:
        decision = chosen.decision
        same = [one for one in published if one.decision.since.offset == decision.since.offset]
        told = tuple(_told(one) for one in same)
        log_start, log_end = self.reader.bounds(self.topics.tool_calls, home)
        retelling = Retelling(
            decision,
            Replayer(
                in_force_from(eras, max(decision.since.offset, 0)),
                partition=RunPartition(self.topics.tool_calls, home),
                run_ttl_ms=int(self.settings.run_ttl * 1000),
                was_published={one.decision.decision_id for one in published}.__contains__,
            ),
            topic=self.topics.tool_calls,
        )
        if decision.since.offset < log_start:
            recomputed = f"not possible: the run's first events have expired (offsets below {log_start})"
            after: Aftermath | None = None
        else:
            self._replay(retelling, decision, home)
            recomputed = retelling.recomputed
            after = self._aftermath(chosen, home, log_end)
        if decision.engine_version != ENGINE_VERSION:
            recomputed = f"by another engine version ({decision.engine_version}, here {ENGINE_VERSION}): {recomputed}"
        return Explanation(
            decision=decision,
            record=str(chosen.origin),
            published_at=chosen.timestamp,
            policy=policy_behind(decision, eras),
            calls=retelling.calls,
            told=told,
            aftermath=after or Aftermath(outcome="unknown"),
            recomputed=recomputed,
            fields=retelling.fields,
        )

    def _replay(self, retelling: Retelling, decision: Decision, home: int) -> None:
        start, end = decision.since.offset, decision.as_of.offset + 1
        intake = InputReader(settings=self.settings, partition=home, partitions=self.partitions)
        calls = self._run_events(intake, decision, self.topics.tool_calls, home, start, end)
        first = next(calls, None)
        if first is None:
            return
        compactions = self._run_events(
            intake, decision, self.topics.compactions, home, *self._compactions(first[1], decision, home)
        )
        events = in_order(_with_first(first[0], calls), (event for event, _ in compactions), retelling.replayer.eras)
        for event in events:
            retelling.feed(event)
        retelling.remember_calls()
        retelling.finish()

    def _compactions(self, first: InputRecord, decision: Decision, home: int) -> tuple[int, int]:
        begin, end = self.reader.bounds(self.topics.compactions, home)
        at = self.reader.offset_at(self.topics.compactions, home, first.timestamp - AROUND_MS)
        behind = self.reader.offset_at(self.topics.compactions, home, max(first.timestamp, decision.as_of.time) + AROUND_MS)
        return end if at is None else max(at, begin), end if behind is None else behind

    def _aftermath(self, chosen: _Published, home: int, log_end: int) -> Aftermath:
        decision = chosen.decision
        intake = InputReader(settings=self.settings, partition=home, partitions=self.partitions)
        start = decision.as_of.offset + 1
        end = min(log_end, start + AFTER_RECORDS)
        for following in self._run_events(intake, decision, self.topics.tool_calls, home, start, end):
            if (found := aftermath_of(decision, chosen.timestamp, [following])) is not None:
                return found
        return aftermath_of(decision, chosen.timestamp, []) or Aftermath(outcome="nothing_followed")

    def _run_events(
        self, intake: InputReader, decision: Decision, topic: str, home: int, start: int, end: int
    ) -> Iterator[tuple[Input, InputRecord]]:
        key = decision.run_id.encode()
        for record in self._records(topic, home, start, end):
            if record.key == key and (event := intake.read(record)) is not None:
                yield event, record

    def _records(self, topic: str, number: int, start: int, end: int) -> Iterator[InputRecord]:
        for got in self.reader.read(topic, number, start, end):
            yield from got.records()
            self.on_progress(got.next_offset - start)
            start = got.next_offset


def _with_first(first: Input, others: Iterator[tuple[Input, InputRecord]]) -> Iterator[Input]:
    yield first
    for event, _ in others:
        yield event


def _decision(record: InputRecord) -> Decision | None:
    try:
        return Decision.from_record(record.value or b"", record.headers)
    except InvalidEventError:
        return None


def _marker(record: InputRecord) -> PolicyApplied | None:
    try:
        return PolicyApplied.from_record(record.value or b"", record.headers)
    except InvalidEventError:
        return None


def _told(one: _Published) -> Told:
    decision = one.decision
    return Told(
        decision_id=decision.decision_id,
        action=decision.action,
        detector=decision.detector,
        count=decision.count,
        about=decision.target.tool or "the run",
        record=str(one.origin),
        decided_at=decision.decided_at,
        published_at=one.timestamp,
        as_of_sequence=decision.as_of.sequence,
        late=decision.late,
        reason=decision.reason,
    )
