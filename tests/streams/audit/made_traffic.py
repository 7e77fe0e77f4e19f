"""Traffic for audits: many short runs side by side, some of which loop, compact, or are published twice in part."""

import random
from collections.abc import Iterator
from typing import Any

import xxhash

from schemas import cloudevents
from schemas.events import CompactionCompleted, RunEnded, RunEvent, ToolCallFinished, ToolCallStarted
from schemas.topics import Topics
from streams.intake.outgoing import OutgoingEvent

#: Runs that are under way at the same time.
SIDE_BY_SIDE = 200

#: One event in so many is published a second time, a little later.
DUPLICATES = 200


def _hash(*parts: object) -> str:
    return xxhash.xxh3_128_hexdigest(repr(parts).encode())


class _Run:
    def __init__(self, number: int, rng: random.Random) -> None:
        self.run_id = f"run-{number:07d}"
        self.kind = rng.choices(("healthy", "loop", "ping-pong", "missing", "compacting"), (86, 6, 3, 2, 3))[0]
        self.agent = rng.choice(("main", "coder", "researcher"))
        self.calls = rng.randint(10, 60)
        self.ends = rng.random() < 0.8
        self.sequence = 0

    def event(self, model: type[RunEvent], topics: Topics, time: int, **data: Any) -> OutgoingEvent:
        self.sequence += 1
        value = cloudevents.structured(
            event_type=model.event_type(),
            source="/tests/audit",
            event_id=f"{self.run_id}:{self.sequence}",
            run_id=self.run_id,
            data={"run_id": self.run_id, "agent_id": self.agent, **data},
            time=time,
            sequence=self.sequence,
        )
        topic = topics.compactions if model is CompactionCompleted else topics.tool_calls
        return OutgoingEvent(topic=topic, key=self.run_id.encode(), value=value, run_id=self.run_id, sequence=self.sequence)

    def events(self, topics: Topics, clock: Iterator[int]) -> Iterator[OutgoingEvent]:
        for step in range(self.calls):
            looping = self.kind in ("loop", "compacting") and step > 5
            tool = "nope" if self.kind == "missing" else ("exec" if looping else ("read", "write", "exec")[step % 3])
            args = _hash("same" if looping else step % 2 if self.kind == "ping-pong" else (self.run_id, step))
            if self.kind == "ping-pong":
                tool = ("read", "write")[step % 2]
            call = {"tool": tool, "args_hash": args, "call_id": f"call_{step}"}
            yield self.event(ToolCallStarted, topics, next(clock), **call)
            outcome = {"outcome_hash": args} | ({"unknown_tool": "nope"} if self.kind == "missing" else {})
            yield self.event(ToolCallFinished, topics, next(clock), **call, **outcome)
            if self.kind == "compacting" and step % 9 == 8:
                yield self.event(CompactionCompleted, topics, next(clock), will_retry=True)
        if self.ends:
            yield self.event(RunEnded, topics, next(clock), status="completed")


def traffic(count: int, topics: Topics, *, seed: int = 7) -> Iterator[OutgoingEvent]:
    """Yield `count` events."""
    rng = random.Random(seed)
    clock = iter(range(1_796_000_000_000, 2**60))
    started = 0
    live: list[Iterator[OutgoingEvent]] = []
    again: list[OutgoingEvent] = []
    for _ in range(count):
        while len(live) < SIDE_BY_SIDE:
            live.append(_Run(started, rng).events(topics, clock))
            started += 1
        if again and rng.random() < 0.2:
            yield again.pop(0)
            continue
        while True:
            chosen = rng.randrange(len(live))
            event = next(live[chosen], None)
            if event is not None:
                break
            live[chosen] = _Run(started, rng).events(topics, clock)
            started += 1
        if rng.randrange(DUPLICATES) == 0:
            again.append(event)
        yield event
