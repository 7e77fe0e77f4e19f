"""Faust as its documentation has it: one event at a time, a table that is written per event, our detection."""

from typing import Any

import faust

from tests.bench.contenders.arguments import parse
from tests.bench.contenders.detecting_job import DetectingJob

given = parse()
app = faust.App(
    given.group,
    broker=f"kafka://{given.bootstrap}",
    store="memory://",
    datadir=str(given.state_dir),
    topic_partitions=given.partitions,
    topic_disable_leader=True,
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=given.session_timeout,
    broker_heartbeat_interval=given.session_timeout / 4,
    broker_commit_interval=given.commit_interval,
    # Larger than the defaults, which makes it a little faster.
    broker_max_poll_records=5000,
    stream_buffer_maxsize=65536,
    producer_linger=0.01,
    producer_max_batch_size=1024 * 1024,
)
raw: dict[str, Any] = {"key_type": bytes, "key_serializer": "raw", "value_type": bytes, "value_serializer": "raw"}
events = app.topic(given.input, **raw)
decisions = app.topic(given.decisions, **raw)
runs = app.Table("runs", partitions=given.partitions, schema=faust.Schema(**raw))
job = DetectingJob(given.input)


@app.agent(events)
async def judge(stream: Any) -> None:
    """Judge one event after the other."""
    async for event in stream.events():
        at = event.message
        state, decided = job.step(
            runs.get(event.key),
            topic=given.input,
            partition=at.partition,
            offset=at.offset,
            timestamp=int(at.timestamp * 1000),
            key=event.key,
            value=event.value,
        )
        runs[event.key] = state
        for value in decided:
            await decisions.send(key=event.key, value=value, partition=at.partition)


if __name__ == "__main__":
    faust.Worker(app, loglevel="WARNING", quiet=True).execute_from_commandline()
