"""A worker in a process of its own, to be killed, paused and stopped: counts events per key over two topics.

    python counting_worker.py BROKER GROUP CALLS COMPACTIONS DECISIONS PARTITIONS DATA_DIR [SETTING=VALUE...]

Per event it writes a decision (its place) to the decisions topic; per commit the states touched since the last one.
A state holds the count and the offset after the last event of each input topic that is in it.
"""

import asyncio
import struct
import sys
import time
from typing import Any

import faust
from faust.types import TP

from streams.transport import Batch, BatchTopic, ProducerRecord, StaleBatch, batch_app_settings, send_batches

STATE = struct.Struct(">QQQ")
COMMIT_INTERVAL = 0.2


def newer(old: bytes, new: bytes) -> bool:
    return sum(STATE.unpack(new)[1:]) >= sum(STATE.unpack(old)[1:])


class Counter:
    """Decisions first, then states, then offsets."""

    def __init__(self, app: faust.App, topic: BatchTopic, table: Any, calls: str, decisions: str, delay: float) -> None:
        self.app, self.table, self.calls, self.decisions, self.delay = app, table, calls, decisions, delay
        self.states: dict[int, dict[bytes, list[int]]] = {}
        self.touched: dict[int, set[bytes]] = {}
        self.pending: list[Batch] = []
        self.lock = asyncio.Lock()
        self.committed_at = time.monotonic()
        topic.before_release(self.release)
        topic.after_takeover(self.forget)

    async def release(self, partitions: frozenset[TP]) -> None:
        async with self.lock:
            await self.write_states()

    async def forget(self, partitions: frozenset[TP]) -> None:
        async with self.lock:
            self.states, self.touched, self.pending = {}, {}, []

    def state(self, partition: int, key: bytes) -> list[int]:
        states = self.states.setdefault(partition, {})
        if key not in states:
            stored = self.table.get_raw(partition, key)
            states[key] = list(STATE.unpack(stored)) if stored else [0, 0, 0]
        return states[key]

    async def process(self, batch: Batch) -> None:
        async with self.lock:
            try:
                await self.count(batch)
            except BaseException:
                # Events of this batch are in the states, their decisions are not written: no release may write such states.
                self.states, self.touched, self.pending = {}, {}, []
                raise

    async def count(self, batch: Batch) -> None:
        source = 1 if batch.topic == self.calls else 2
        decisions = []
        for record in batch.records:
            state = self.state(batch.partition, record.key)
            if record.offset >= state[source]:
                state[0] += 1
                state[source] = record.offset + 1
                self.touched.setdefault(batch.partition, set()).add(record.key)
                decisions.append(ProducerRecord(record.key, f"{batch.topic}/{batch.partition}/{record.offset}".encode()))
        if self.delay:
            await asyncio.sleep(self.delay)
        batch.ensure_owned()
        await send_batches(self.app, self.decisions, batch.partition, decisions)
        batch.processed()
        self.pending.append(batch)
        if time.monotonic() - self.committed_at >= COMMIT_INTERVAL:
            await self.commit()

    async def commit(self) -> None:
        await self.write_states()
        await self.app.consumer.commit()
        self.committed_at = time.monotonic()

    async def write_states(self) -> None:
        for partition, keys in self.touched.items():
            if keys:
                self.ensure_owned()
                changes = {key: STATE.pack(*self.states[partition][key]) for key in keys}
                await self.table.put_many(partition, changes)
                keys.clear()
        self.ensure_owned()
        for batch in self.pending:
            batch.done()
        self.pending.clear()

    def ensure_owned(self) -> None:
        for batch in self.pending:
            batch.ensure_owned()


def build(arguments: list[str]) -> faust.App:
    broker, group, calls, compactions, decisions, partitions, data_dir, *rest = arguments
    options = dict(option.split("=") for option in rest)
    app = faust.App(
        group,
        **batch_app_settings(
            bootstrap_servers=broker,
            session_timeout=float(options.get("session_timeout", 2.0)),
            heartbeat_interval=float(options.get("heartbeat_interval", 0.5)),
            idempotence=options.get("idempotence") == "True",
            commit_interval=0.3,
            store=options.get("store", "memory://"),
            data_dir=data_dir,
        ),
    )
    topic = BatchTopic(app, topics=[calls, compactions], max_records=100)
    table = app.Table("counts", partitions=int(partitions), newer=newer)
    counter = Counter(app, topic, table, calls, decisions, float(options.get("delay", 0)))

    @app.agent(topic)
    async def count(stream: Any) -> None:
        async for batches in stream:
            for batch in batches:
                try:
                    await counter.process(batch)
                except StaleBatch as reason:
                    print("stale:", reason, flush=True)

    @app.timer(COMMIT_INTERVAL)
    async def commit_when_idle() -> None:
        async with counter.lock:
            if counter.pending:
                try:
                    await counter.commit()
                except StaleBatch as reason:
                    print("stale:", reason, flush=True)

    @topic.after_takeover
    async def say(partitions: frozenset[TP]) -> None:
        await counter.forget(partitions)
        print("assigned:", sorted((tp.topic, tp.partition) for tp in app.consumer.assignment()), flush=True)

    return app


if __name__ == "__main__":
    faust.Worker(build(sys.argv[1:]), loglevel="INFO", redirect_stdouts=False).execute_from_commandline()
