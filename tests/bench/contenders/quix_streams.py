"""Quix Streams as its documentation has it: a stateful function over a data frame, our detection."""

from typing import Any

from quixstreams import Application
from quixstreams.context import message_context
from quixstreams.models import TopicConfig

from tests.bench.contenders.arguments import parse
from tests.bench.contenders.detecting_job import DetectingJob

given = parse()
app = Application(
    broker_address=given.bootstrap,
    consumer_group=given.group,
    auto_offset_reset="earliest",
    state_dir=str(given.state_dir),
    loglevel="WARNING",
    commit_interval=given.commit_interval,
    consumer_extra_config={
        "session.timeout.ms": int(given.session_timeout * 1000),
        "heartbeat.interval.ms": int(given.session_timeout * 250),
        "fetch.wait.max.ms": 100,
    },
    producer_extra_config={"linger.ms": 5},
)
config = TopicConfig(num_partitions=given.partitions, replication_factor=1)
events = app.topic(given.input, value_deserializer="bytes", key_deserializer="bytes", config=config)
decisions = app.topic(given.decisions, value_serializer="bytes", key_serializer="bytes", config=config)
job = DetectingJob(given.input)


def judge(value: bytes, key: bytes, timestamp: int, headers: Any, state: Any) -> list[bytes]:
    """Judge one event."""
    at = message_context()
    new, decided = job.step(
        state.get_bytes("run"),
        topic=given.input,
        partition=at.partition,
        offset=at.offset,
        timestamp=timestamp,
        key=key,
        value=value,
    )
    state.set_bytes("run", new)
    return decided


if __name__ == "__main__":
    app.dataframe(events).apply(judge, stateful=True, expand=True, metadata=True).to_topic(decisions)
    app.run()
