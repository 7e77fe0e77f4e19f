"""Events per second of one worker on the embedded broker: `python -m tests.bench.worker_throughput [EVENTS] [RUNS]`.

Started and finished events of many runs, hash-only, 3 % of the runs looping. The clock runs from the start of a worker on a full
topic until it has committed everything, less the time that a worker needs on an empty topic to come up.
"""

import asyncio
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import xxhash

from schemas import cloudevents
from schemas.events import ToolCallFinished, ToolCallStarted
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 4


def events(count: int, runs: int, topic: str) -> list[OutgoingEvent]:
    """Return `count` events in the order of their time, all runs side by side."""
    rng = random.Random(7)
    looping = set(rng.sample(range(runs), max(1, runs * 3 // 100)))
    made = []
    for number in range(count // 2):
        run = number % runs
        run_id, step = f"run-{run:07d}", number // runs
        args = xxhash.xxh3_128_hexdigest(b"loop" if run in looping else b"%d-%d" % (run, step))
        call = {"run_id": run_id, "tool": "exec", "call_id": f"call_{number:024d}", "args_hash": args}
        started, finished = (ToolCallStarted, {}, 2 * step + 1), (ToolCallFinished, {"outcome_hash": args}, 2 * step + 2)
        for model, extra, sequence in (started, finished):
            wire = cloudevents.structured(
                event_type=model.event_type(),
                source="bench",
                event_id=f"{run_id}:{sequence}",
                run_id=run_id,
                data={**call, **extra},
                time=1_796_000_000_000 + number,
                sequence=sequence,
            )
            made.append(OutgoingEvent(topic=topic, key=run_id.encode(), value=wire, run_id=run_id, sequence=sequence))
    return made


async def measure(broker: str, tag: str, made: list[OutgoingEvent], folder: Path) -> float:
    """Publish the events to fresh topics, then return the seconds from a worker's start until it has committed them."""
    policy = folder / "policy.json"
    policy.write_text('{"tools": {"loopDetection": {"enabled": true}}}')
    settings = Settings(
        bootstrap_servers=broker,
        topic_prefix=f"{tag}.",
        group=tag,
        policy_file=policy,
        idempotent_producer=False,
        session_timeout=2.0,
        heartbeat_interval=0.5,
    )
    await create_topics(Connection.from_settings(settings), settings.topics, partitions=PARTITIONS)
    moved = [replace(event, topic=settings.topics.tool_calls) for event in made]
    await publish_events(Connection.from_settings(settings), moved, topics=settings.topics)
    ends = [0] * PARTITIONS
    for event in made:
        ends[partition_of(event.run_id, PARTITIONS)] += 1
    begin = time.perf_counter()
    with WorkerProcess(settings, log_path=folder / "worker.log") as worker:
        reached = [(settings.topics.tool_calls, partition, end) for partition, end in enumerate(ends)]
        await worker.wait_until_committed(reached, patience=600)
        return time.perf_counter() - begin


def main() -> None:
    """Print start-up time, events per second of three rounds, and their median."""
    count, runs = (int(argument) for argument in [*sys.argv[1:], "200000", "1000"][:2])
    made = events(count, runs, "")
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        servers = broker.bootstrap_servers
        up = asyncio.run(measure(servers, "up", made[: 2 * runs][:2000], Path(folder)))
        print(f"start to first commit: {up:.2f} s")
        rates = []
        for number in range(3):
            took = asyncio.run(measure(servers, f"round{number}", made, Path(folder)))
            rates.append(count / (took - up))
            print(f"round {number + 1}: {took:.2f} s, {rates[-1]:,.0f} events/s after start-up")
        print(f"median: {sorted(rates)[1]:,.0f} events/s ({count:,} events, {runs:,} runs, embedded broker on the same cores)")


if __name__ == "__main__":
    main()
