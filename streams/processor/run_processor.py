"""Applies batches to runs, and writes in the order that loses nothing: decisions, then states, then offsets.

Dead letters and decisions of the batches that are processed together are acknowledged before anything else is done: no state is
written with an event in it whose decisions are not on their topic.
"""

import asyncio
import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
from faust.types import TP

from schemas.cloudevents import InvalidEventError
from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from schemas.settings import Settings
from streams.detection.engine import ENGINE_VERSION, expire, judge_again
from streams.detection.facts import RunPartition
from streams.processor import metrics
from streams.processor.batch_judging import Judged, judge_records
from streams.processor.commits import Commits
from streams.processor.dead_letters import dead_letter, send_dead_letters
from streams.processor.misrouted import sent_on
from streams.processor.owned_runs import OwnedRuns, StateSlice
from streams.processor.partition_policy import PartitionPolicy
from streams.processor.policies_in_force import PoliciesInForce
from streams.processor.run_expiry import RunExpiry
from streams.processor.run_log import RunLog
from streams.transport import (
    Batch,
    BatchTable,
    ProducerRecord,
    Record,
    RecordTooLargeError,
    StaleBatch,
    send_batches,
)

#: Runs judged again under a new policy between two batches: about 20 ms of work.
RUNS_PER_SLICE = 500

log = structlog.get_logger()


class RunProcessor:
    """The runs of the partitions that this worker owns; `partitions` is the number that each input topic has."""

    def __init__(self, *, app: Any, table: BatchTable, settings: Settings, partitions: int) -> None:
        self.app = app
        self.settings = settings
        self.topics = settings.topics
        self.partitions = partitions
        self.runs = OwnedRuns(table)
        self.policies = PoliciesInForce(self.runs, topics=self.topics)
        self.expiry = RunExpiry(run_ttl_ms=int(settings.run_ttl * 1000))
        self.lock = asyncio.Lock()
        self.run_log = RunLog()
        #: Per input partition, the time of the last record that was processed (milliseconds, the record's own).
        self.record_times: dict[TP, int] = {}
        metrics.begin(self.topics)
        self._source = f"loopwarden/{settings.group}"
        self._next_offsets: dict[TP, int] = {}
        #: Set by the last release of a worker that stops: its producer goes next.
        self._has_finished = False
        self.commits = Commits(app=app, runs=self.runs, topics=self.topics, interval=settings.commit_interval)

    # -- batches ---------------------------------------------------------------------------------------------------------------

    async def process(self, *batches: Batch) -> None:
        """Apply batches, and go on with the commit that is under way or due.

        Batches that may be another worker's by now are dropped: they are delivered again to whoever owns them.
        """
        await self.policies.known.wait()
        async with self._turn("batches dropped, they will be processed again"):
            await self._process(batches)

    @asynccontextmanager
    async def _turn(self, what_stale_means: str) -> AsyncIterator[None]:
        async with self.lock:
            try:
                yield
            except StaleBatch as reason:
                self._forget()
                # Also when no batch was asked: what was dropped here must be delivered again, before anything behind it.
                self.app.consumer.take_back_all()
                log.info(what_stale_means, reason=str(reason))
            except BaseException:
                # Failed or cancelled: the states may hold events whose decisions are not on their topic, and a release that
                # follows must not write them.
                self._forget()
                raise

    async def _process(self, batches: Sequence[Batch]) -> None:
        for batch in batches:  # before any is applied: a change of policy commits
            if self.policies.announced(batch.partition) is None:
                batch.ensure_owned()
                await self.policies.change(self.policies.due(), self)
        states = self.commits.next_slice()
        brought: list[tuple[Batch, _Applied]] = []
        for batch in batches:
            policy = self.policies.announced(batch.partition)
            if policy is None:
                raise StaleBatch(f"{batch}: its partition has no policy: it is not owned any more")
            began = time.perf_counter()
            applied = self._apply(batch, policy)
            applied.seconds = time.perf_counter() - began
            brought.append((batch, applied))
        began = time.perf_counter()
        await self._write(brought, states)
        share = (time.perf_counter() - began) / len(brought)
        for batch, applied in brought:
            seconds = applied.seconds + share
            metrics.observe_latency(applied.decisions)
            metrics.count_batch(batch.topic, seconds=seconds, results=applied.results, dead_letters=applied.letter_codes)
            tp = TP(batch.topic, batch.partition)
            self._next_offsets[tp] = batch.last_offset + 1
            if applied.timestamp is not None:
                self.record_times[tp] = applied.timestamp
            self.commits.add(batch, applied.records)
            batch.processed()
        if states is not None:
            self.commits.wrote(states)

    async def _write(self, brought: Sequence[tuple[Batch, "_Applied"]], states: StateSlice | None) -> None:
        """Write what batches bring, each kind acknowledged before the next: events sent on, dead letters, decisions and states.

        Partitions side by side. The looks at the lease come before all writes of a kind, so that nothing is under way at a
        look: it would still go out when the worker was paused there.
        """

        def ensure_owned() -> None:
            for batch, _ in brought:
                batch.ensure_owned()
            if states is not None:
                self.commits.ensure_owned()

        ensure_owned()
        misrouted = [(*each, *to) for each in brought for to in each[1].misrouted.items()]
        if misrouted:
            await _all(self._send_on(batch, partition, records, applied) for batch, applied, partition, records in misrouted)
            ensure_owned()
        letters = [
            send_dead_letters(self.app, self.topics.dead_letters(batch.topic), batch.partition, applied.letters)
            for batch, applied in brought
            if applied.letters
        ]
        if letters:
            await _all(letters)
            ensure_owned()
        decisions: defaultdict[int, list[MadeDecision]] = defaultdict(list)
        for batch, applied in brought:
            decisions[batch.partition] += applied.decisions
        writes: list[Awaitable[None]] = [self._publish(partition, made) for partition, made in decisions.items() if made]
        if states is not None:
            writes.append(self.commits.put(states))
        await _all(writes)

    def _apply(self, batch: Batch, policy: PolicyDocument) -> "_Applied":
        judged = judge_records(
            batch.records,
            topic=batch.topic,
            home=RunPartition(self.topics.tool_calls, batch.partition),
            partitions=self.partitions,
            policy=policy,
            settings=self.settings,
            run_ttl_ms=self.expiry.run_ttl_ms,
            decoded=self.runs.decoded(batch.partition),
            decode=partial(self.runs.get, batch.partition),
            touched=self.runs.touched(batch.partition),
        )
        self.expiry.saw(batch.partition, judged.latest)
        applied = _Applied(judged)
        for record, error in judged.refused:
            self._dead_letter(record, error, applied)
        for partition, records in judged.misrouted.items():
            applied.results["misrouted"] += len(records)
            for record in records:
                self.run_log.misrouted(record, partition)
        for record, state, attempts in judged.armed:
            self.run_log.guard_armed(state, attempts=attempts, record=record)
        return applied

    def _dead_letter(self, record: Record, error: InvalidEventError, applied: "_Applied") -> None:
        applied.letters.append(dead_letter(record, error, group=self.settings.group))
        applied.letter_codes[error.code] += 1
        applied.results["dead_letter"] += 1
        self.run_log.dead_lettered(record, error)

    async def _send_on(self, batch: Batch, partition: int, records: Sequence[Record], applied: "_Applied") -> None:
        try:
            await send_batches(self.app, batch.topic, partition, [sent_on(record) for record in records])
        except RecordTooLargeError:
            # Compressed it had fitted. Those before it may be written twice; their sequence tells the copies.
            for record in records:
                try:
                    await send_batches(self.app, batch.topic, partition, [sent_on(record)])
                except RecordTooLargeError:
                    too_large = InvalidEventError("misrouted", f"too large to be sent on to partition {partition}")
                    self._dead_letter(record, too_large, applied)

    async def _publish(self, partition: int, decisions: Sequence[MadeDecision]) -> None:
        if not decisions:
            return
        now = int(time.time() * 1000)
        records = [ProducerRecord(one.run_id.encode(), one.to_record(source=self._source, decided_at=now)) for one in decisions]
        await send_batches(self.app, self.topics.decisions, partition, records)
        metrics.count_decisions(decisions)
        self.run_log.decided(decisions)

    # -- commits ---------------------------------------------------------------------------------------------------------------

    async def commit_when_due(self) -> None:
        """Commit what is pending when no batch comes along to do it, states that another policy changed included."""
        more = True
        while more:
            more = False
            async with self._turn("commit dropped, its batches will be processed again"):
                if self.commits.waiting or (self.runs.unwritten and self.app.consumer.lease.held):
                    states = self.commits.next_slice()
                    more = states is not None and await self.commits.write(states)
            await asyncio.sleep(0)  # lets a batch in between

    async def release(self, partitions: frozenset[TP]) -> None:
        """Write what is pending before partitions are given back; their offsets are committed by the caller."""
        async with self.lock:
            await self.commits.write_states()
            self._has_finished = bool(self.app.should_stop)
            log.info("partitions given back", partitions=sorted({tp.partition for tp in partitions}))

    async def take_over(self, partitions: frozenset[TP]) -> None:
        """Forget what is decoded: others may have written since."""
        async with self.lock:
            self._forget()
            self._next_offsets.clear()
            self.record_times.clear()
            numbers = sorted({tp.partition for tp in partitions if tp.topic == self.topics.tool_calls})
            self.expiry.take_over()
            self.policies.take_over(numbers)
            log.info("partitions taken over", partitions=numbers)

    def _forget(self) -> None:
        self.runs.forget()
        self.policies.forget_progress()
        self.commits.forget()

    async def commit(self) -> None:
        """Write all states, then commit the offsets of the batches in them."""
        await self.commits.commit()

    def ensure_owned(self) -> None:
        """Raise `StaleBatch` when the partitions may not be ours any more."""
        self.commits.ensure_owned()

    def next_offset(self, topic: str, partition: int) -> int:
        """Return the first offset of an input that no batch was processed of."""
        tp = TP(topic, partition)
        processed = self._next_offsets.get(tp)
        return int(self.app.consumer.committed_offset(tp)) if processed is None else processed

    @property
    def _may_write(self) -> bool:
        """Whether there is any point in work between batches."""
        return bool(self.app.consumer.lease.held) and not self._has_finished

    # -- between batches -------------------------------------------------------------------------------------------------------

    async def change_policies(self) -> None:
        """Give partitions the policy that is wanted, those for which it is time."""
        await self.policies.look_for_ends(self.app.consumer, self.next_offset)
        async with self._turn("change of policy put off"):
            if self._may_write and (due := self.policies.due()):
                await self.policies.change(due, self)

    async def announce(self, partition: int, policy: PartitionPolicy, version: str) -> None:
        """Publish the marker of a policy that is in force now."""
        marker = PolicyApplied(
            policy_version=version,
            policy=policy.policy,
            partition=partition,
            tool_calls_offset=policy.tool_calls_offset,
            compactions_offset=policy.compactions_offset,
            engine_version=ENGINE_VERSION,
            applied_at=int(time.time() * 1000),
        )
        await send_batches(
            self.app, self.topics.decisions, partition, [ProducerRecord(None, marker.to_record(source=self._source))]
        )

    async def judge_slice_again(self) -> bool:
        """Bring a slice of the runs under the policy in force; return whether there may be more.

        A run that has an event before its turn is brought under it by that event.
        """
        async with self._turn("judging again put off"):
            found = self.policies.next_slice(RUNS_PER_SLICE) if self._may_write else None
            if found is None:
                return False
            partition, keys = found
            policy = self.policies.of(partition)
            if policy is None:
                return False
            decisions: list[MadeDecision] = []
            home = RunPartition(self.topics.tool_calls, partition)
            for key in keys:
                if not self.runs.is_judged_by_another(partition, key, policy.version):
                    continue
                state = self.runs.get(partition, key.decode())
                if state.policy_version == policy.version or state.ended:
                    continue
                decisions.extend(judge_again(state, home, policy))
                self.runs.touch(partition, state.run_id)
            self.ensure_owned()
            await self._publish(partition, decisions)
            if not keys:
                await self.commits.write_states()
                await self.policies.all_judged(partition, self)
            return True
        return False

    async def expire_slice(self) -> bool:
        """Forget runs of a slice that are idle or ended; return whether there may be more."""
        async with self._turn("forgetting idle runs put off"):
            if not self._may_write:
                return False
            next_offsets = {
                partition: (
                    self.next_offset(self.topics.tool_calls, partition),
                    self.next_offset(self.topics.compactions, partition),
                )
                for partition in self.policies.owned
            }
            self.expiry.begin_pass(self.runs, next_offsets)
            found = self.expiry.next_slice(self.runs, self.commits.is_committed)
            if found is None:
                return False
            partition, policy = found.partition, self.policies.of(found.partition)
            for run_id, offsets in found.ended:
                self.runs.end(partition, run_id, offsets)
            if policy is None:
                return True
            decisions: list[MadeDecision] = []
            home = RunPartition(self.topics.tool_calls, partition)
            for run_id in found.idle:
                state = self.runs.get(partition, run_id)
                decisions.extend(expire(state, home, policy))
                self.runs.end(partition, run_id, (state.tool_offset, state.compaction_offset))
            self.ensure_owned()
            await self._publish(partition, decisions)
            return True
        return False


class _Applied:
    """What a batch brings."""

    __slots__ = ("decisions", "letter_codes", "letters", "misrouted", "records", "results", "seconds", "timestamp")

    def __init__(self, judged: Judged) -> None:
        self.seconds = 0.0
        self.records = judged.records
        self.timestamp = judged.timestamp
        self.results: Tally[str] = Tally(judged.effects)
        self.letter_codes: Tally[str] = Tally()
        self.letters: list[ProducerRecord] = []
        self.misrouted = judged.misrouted
        self.decisions = judged.decisions


async def _all(writes: Iterable[Awaitable[object]]) -> None:
    """Await all; none is left to go on by itself when another fails."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
