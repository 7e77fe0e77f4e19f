"""Applies batches to runs, and writes in the order that loses nothing: decisions, then states, then offsets.

Dead letters and decisions of a batch are acknowledged before the next batch. The states touched since the last commit are written
once per commit, between batches, so a state in the changelog never holds an event whose decisions are not on their topic. Only
then are the batches done and their offsets committed.
"""

import asyncio
import itertools
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Any

import structlog
from faust.types import TP

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply, judge_again
from streams.detection.facts import RunPartition
from streams.detection.run_state import RunState
from streams.processor import metrics
from streams.processor.intake import dead_letter, read_record
from streams.transport import Batch, BatchTable, ProducerRecord, StaleBatch, send_batches

#: Decoded runs kept per worker between commits; a decoded run takes about 10 KB at a full history.
MAX_DECODED_RUNS = 20_000

#: Runs judged again under a new policy between two batches: about 20 ms of work.
RUNS_PER_SLICE = 500

log = structlog.get_logger()


class RunProcessor:
    """The runs of the partitions that this worker owns."""

    def __init__(self, *, app: Any, table: BatchTable, settings: Settings, policy: PolicyDocument) -> None:
        self.app = app
        self.table = table
        self.settings = settings
        self.policy = policy
        self.lock = asyncio.Lock()
        self._source = f"loopwarden/{settings.group}"
        self._states: dict[int, dict[str, RunState]] = {}
        self._touched: dict[int, set[str]] = {}
        self._ended: dict[int, set[str]] = {}
        self._pending: list[Batch] = []
        self._unjudged: Iterator[tuple[int, bytes]] = iter(())
        self._committed_at = time.monotonic()

    # -- batches ---------------------------------------------------------------------------------------------------------------

    async def process(self, batch: Batch) -> None:
        """Apply a batch; commit when it is time.

        A batch that may be another worker's by now is dropped: it is delivered again to whoever owns it.
        """
        async with self.lock:
            try:
                await self._process(batch)
                if time.monotonic() - self._committed_at >= self.settings.commit_interval:
                    await self._commit()
            except StaleBatch as reason:
                self._forget()
                log.info("batch dropped, it will be processed again", reason=str(reason))
            except BaseException:
                # Failed or cancelled: the states may hold events whose decisions are not on their topic, and a release that
                # follows must not write them.
                self._forget()
                raise

    async def _process(self, batch: Batch) -> None:
        letters, decisions = self._apply(batch)
        batch.ensure_owned()
        await send_batches(self.app, self.settings.topics.dead_letters(batch.topic), batch.partition, letters)
        batch.ensure_owned()
        await self._publish(batch.partition, decisions)
        batch.processed()
        self._pending.append(batch)

    def _apply(self, batch: Batch) -> tuple[list[ProducerRecord], list[Decision]]:
        letters: list[ProducerRecord] = []
        decisions: list[Decision] = []
        results: Tally[str] = Tally()
        touched = self._touched.setdefault(batch.partition, set())
        for record in batch.records:
            try:
                run_id, facts = read_record(record, settings=self.settings)
            except InvalidEventError as error:
                letters.append(dead_letter(record, error, group=self.settings.group))
                metrics.DEAD_LETTERS.labels(batch.topic, error.code).inc()
                results["dead_letter"] += 1
                place = f"{record.topic}[{record.partition}]@{record.offset}"
                log.warning("record dead-lettered", at=place, code=error.code, reason=str(error))
                continue
            state = self._state(batch.partition, run_id)
            applied = apply(state, facts, self.policy)
            results[applied.effect] += 1
            if applied.effect != "redelivered":
                touched.add(run_id)
            decisions.extend(applied.decisions)
        for effect, number in results.items():
            metrics.EVENTS.labels(batch.topic, effect).inc(number)
        return letters, decisions

    def _state(self, partition: int, run_id: str) -> RunState:
        states = self._states.setdefault(partition, {})
        state = states.get(run_id)
        if state is None:
            stored = self.table.get_raw(partition, run_id.encode())
            state = states[run_id] = RunState(run_id) if stored is None else state_codec.decode(run_id, stored)
        return state

    async def _publish(self, partition: int, decisions: Iterable[Decision]) -> None:
        now = int(time.time() * 1000)
        records = []
        for decision in decisions:
            dated = decision.model_copy(update={"decided_at": now})
            records.append(ProducerRecord(decision.run_id.encode(), dated.to_record(source=self._source)))
            metrics.DECISIONS.labels(decision.action, decision.detector).inc()
        await send_batches(self.app, self.settings.topics.decisions, partition, records)

    # -- commits ---------------------------------------------------------------------------------------------------------------

    async def commit_when_due(self) -> None:
        """Commit what is pending when no batch comes along to do it, states that another policy changed included."""
        async with self.lock:
            unwritten = any(self._touched.values()) and self.app.consumer.lease.held
            if (self._pending or unwritten) and time.monotonic() - self._committed_at >= self.settings.commit_interval:
                try:
                    await self._commit()
                except StaleBatch as reason:
                    self._forget()
                    log.info("commit dropped, its batches will be processed again", reason=str(reason))

    async def release(self, partitions: frozenset[TP]) -> None:
        """Write what is pending before partitions are given back; their offsets are committed by the caller."""
        async with self.lock:
            await self._write_states()

    async def take_over(self, partitions: frozenset[TP]) -> None:
        """Forget decoded states: others may have written since. Then have the runs of another policy judged again."""
        async with self.lock:
            self._forget()
            numbers = sorted({tp.partition for tp in partitions if tp.topic == self.settings.topics.tool_calls})
            log.info("partitions taken over", partitions=numbers, policy_version=self.policy.version)
            self._unjudged = ((number, key) for number in numbers for key in list(self.table.keys_of(number)))

    def _forget(self) -> None:
        self._states.clear()
        self._touched.clear()
        self._ended.clear()
        self._pending.clear()

    async def _commit(self) -> None:
        await self._write_states()
        await self.app.consumer.commit()
        self._committed_at = time.monotonic()

    def _ensure_owned(self) -> None:
        for batch in self._pending:
            batch.ensure_owned()

    async def _write_states(self) -> None:
        for partition, run_ids in self._touched.items():
            # An ended run leaves a stub with its input offsets, so that events delivered again do not bring it back to life. The
            # stub goes with the next commit, when the offsets behind it are committed.
            ended, states = self._ended.get(partition, set()), self._states.get(partition, {})
            gone = {run_id for run_id in ended - run_ids if run_id in states and states[run_id].ended}
            changes: dict[bytes, bytes | None] = {run_id.encode(): None for run_id in gone}
            changes.update((run_id.encode(), state_codec.encode(states[run_id])) for run_id in run_ids)
            if changes:
                self._ensure_owned()
                await self.table.put_many(partition, changes)
            for run_id in gone:
                del states[run_id]
            self._ended[partition] = {run_id for run_id in run_ids if states[run_id].ended}
            run_ids.clear()
        self._ensure_owned()
        for batch in self._pending:
            batch.done()
        self._pending.clear()
        if sum(len(states) for states in self._states.values()) > MAX_DECODED_RUNS:
            for partition, states in self._states.items():
                kept = self._ended.get(partition, set())
                self._states[partition] = {run_id: state for run_id, state in states.items() if run_id in kept}

    # -- another policy --------------------------------------------------------------------------------------------------------

    async def judge_slice_again(self) -> bool:
        """Bring a slice of the runs under the policy in force; return whether there may be more.

        A run that has an event before its turn is brought under it by that event.
        """
        async with self.lock:
            decisions: dict[int, list[Decision]] = {}
            keys = list(itertools.islice(self._unjudged, RUNS_PER_SLICE))
            for partition, key in keys:
                if self.table.get_raw(partition, key) is None:
                    continue
                state = self._state(partition, key.decode())
                if state.policy_version == self.policy.version or state.ended:
                    continue
                home = RunPartition(self.settings.topics.tool_calls, partition)
                decisions.setdefault(partition, []).extend(judge_again(state, home, self.policy))
                self._touched.setdefault(partition, set()).add(state.run_id)
            for partition, changed in decisions.items():
                if not self.app.consumer.lease.held:
                    self._forget()
                    return False
                await self._publish(partition, changed)
            return len(keys) == RUNS_PER_SLICE
