"""Records of the input topics, and the events of one run."""

from dataclasses import dataclass, field
from typing import Any

from schemas import cloudevents
from schemas.events import CompactionCompleted, RunEnded, RunEvent, ToolCallFinished, ToolCallStarted
from schemas.topics import Topics, partition_of

#: 2025-01-01: where the event time begins. Not ahead of anybody's clock: such runs count as idle.
EPOCH_MS = 1_735_689_600_000

#: Event time between two events of a run.
STEP_MS = 250

NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Input:
    """A record as it is published; `topic` is `calls` or `compactions`."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    def topic_name(self, topics: Topics) -> str:
        """Return the name of its topic."""
        return topics.tool_calls if self.topic == "calls" else topics.compactions


@dataclass(slots=True)
class RunEvents:
    """Makes the events of one run, numbered in order.

    Every event names session and agent, so that a run that begins again after its end is the same whether or not the state of its
    first life was still there. With `sequenced` off the events carry no sequence.
    """

    run_id: str
    partitions: int
    sequenced: bool = True
    agent_id: str = "main"
    began_ms: int = EPOCH_MS
    sequence: int = 0
    calls: int = 0
    made: list[Input] = field(default_factory=list)

    def event(self, model: type[RunEvent], **data: Any) -> Input:
        """Make the next event."""
        self.sequence += 1
        value = cloudevents.structured(
            event_type=model.event_type(),
            source="/faults",
            event_id=f"{self.run_id}:{self.sequence}",
            run_id=self.run_id,
            data={"run_id": self.run_id, "session_id": f"s-{self.run_id}", "agent_id": self.agent_id, **data},
            time=self.began_ms + self.sequence * STEP_MS,
            sequence=self.sequence if self.sequenced else None,
        )
        topic = "compactions" if model is CompactionCompleted else "calls"
        made = Input(topic, partition_of(self.run_id, self.partitions), self.run_id.encode(), value)
        self.made.append(made)
        return made

    def call(self, tool: str, params: Any, result: Any = NOTHING, *, error: Any = NOTHING) -> None:
        """Make a call that goes ahead, and its end."""
        self.calls += 1
        shared = {"tool": tool, "call_id": f"call_{self.calls:06d}", "params": params}
        self.event(ToolCallStarted, **shared)
        end = {"error": error} if error is not NOTHING else {} if result is NOTHING else {"result": result}
        self.event(ToolCallFinished, **shared, **end)

    def compaction(self) -> None:
        """Make a compaction that is followed by a retry."""
        self.event(CompactionCompleted, will_retry=True, trigger="overflow")

    def ended(self) -> None:
        """Make the end of the run."""
        self.event(RunEnded, status="done")
