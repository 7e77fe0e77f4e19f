"""A plain loop over aiokafka: what this client can do here, without a framework and without detection.

Decisions of a fetch are acknowledged, states are written once per touched run and commit, then offsets are committed.
"""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.bench.contenders.arguments import Arguments, parse
from tests.bench.contenders.bare_job import DECISION, DECODERS, step


async def send(producer: AIOKafkaProducer, topic: str, partition: int, records: list[tuple[bytes, bytes]]) -> None:
    """Write records to a partition in batches and wait for their acknowledgement."""
    sent, batch, now = [], producer.create_batch(), int(time.time() * 1000)
    for key, value in records:
        if batch.append(key=key, value=value, timestamp=now) is None:
            sent.append(await producer.send_batch(batch, topic, partition=partition))
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=now)
    if batch.record_count():
        sent.append(await producer.send_batch(batch, topic, partition=partition))
    await asyncio.gather(*sent)


async def run(given: Arguments) -> None:
    """Read, keep, decide, write and commit until killed."""
    decode = DECODERS[given.decoder]
    producer = AIOKafkaProducer(
        bootstrap_servers=given.bootstrap, acks="all", enable_idempotence=given.idempotent, max_batch_size=512 * 1024
    )
    consumer = AIOKafkaConsumer(
        given.input,
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=int(given.session_timeout * 1000),
        heartbeat_interval_ms=int(given.session_timeout * 250),
        max_partition_fetch_bytes=4 * 1024 * 1024,
        fetch_max_wait_ms=100,
    )
    await producer.start()
    await consumer.start()
    states: dict[bytes, bytes] = {}
    touched: dict[int, set[bytes]] = {}
    count, committed_at, dirty = 0, time.monotonic(), False
    while True:
        for place, records in (await consumer.getmany(timeout_ms=50, max_records=20_000)).items():
            decisions = []
            keys = touched.setdefault(place.partition, set())
            for record in records:
                states[record.key] = step(states.get(record.key), decode(record.value), record.offset)
                keys.add(record.key)
                count += 1
                if count % given.every == 0:
                    decisions.append((record.key, DECISION))
            await send(producer, given.decisions, place.partition, decisions)
            dirty = True
        if dirty and time.monotonic() - committed_at >= given.commit_interval:
            for partition, keys in touched.items():
                await send(producer, given.changelog, partition, [(key, states[key]) for key in keys])
                keys.clear()
            await consumer.commit()
            committed_at, dirty = time.monotonic(), False


if __name__ == "__main__":
    asyncio.run(run(parse()))
