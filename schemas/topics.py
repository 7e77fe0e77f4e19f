"""The topics: their names, their settings, and which partition a run belongs to."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from aiokafka.partitioner import murmur2

DAY_MS = 24 * 60 * 60 * 1000

#: Room above `max_event_bytes` for a record's key, headers and framing.
RECORD_OVERHEAD_BYTES = 64 * 1024

#: A dead letter is whatever came, also when an input topic lets larger records in than a worker reads.
MAX_DEAD_LETTER_BYTES = 32 * 1024 * 1024

#: The newest segment of a log is never compacted, and a worker that takes over reads all of it. 50 MiB is Kafka Streams' choice.
CHANGELOG_SEGMENT_BYTES = 50 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSpec:
    """A topic as `topics create` makes it: name, partitions and broker-side settings."""

    name: str
    partitions: int
    config: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Topics:
    """The names of all topics under one prefix (`prefix="eu."` gives `eu.agent.tool-calls.v1`)."""

    prefix: str = ""

    @property
    def tool_calls(self) -> str:
        """Tool calls and run ends, written by gateways."""
        return f"{self.prefix}agent.tool-calls.v1"

    @property
    def compactions(self) -> str:
        """Context compactions, written by gateways."""
        return f"{self.prefix}agent.compactions.v1"

    @property
    def decisions(self) -> str:
        """Decisions, written by workers."""
        return f"{self.prefix}agent.decisions.v1"

    @property
    def deliveries(self) -> str:
        """What became of decisions at receivers, written by enforcement workers."""
        return f"{self.prefix}agent.deliveries.v1"

    @property
    def policies(self) -> str:
        """Policies by agent id (`*` for the default), written by operators."""
        return f"{self.prefix}agent.policies.v1"

    @property
    def inputs(self) -> tuple[str, str]:
        """The two topics that workers read events from."""
        return self.tool_calls, self.compactions

    @property
    def single_partition(self) -> tuple[str, str]:
        """The topics that have one partition, because every worker reads all of them."""
        return self.policies, self.dead_letters(self.policies)

    @staticmethod
    def changelog(group: str) -> str:
        """Return the topic that keeps the run states of a group of workers, under the name that Faust gives it."""
        return f"{group}-runs-changelog"

    @staticmethod
    def dead_letters(topic: str) -> str:
        """Return the dead-letter topic of an input topic or of the decisions topic."""
        return f"{topic}.dlq"

    def specs(
        self,
        *,
        partitions: int,
        max_event_bytes: int,
        replication_factor: int = 1,
        input_retention_ms: int = 7 * DAY_MS,
        group: str | None = None,
    ) -> Iterator[TopicSpec]:
        """Yield every topic with explicit settings; with a group of workers its changelog too.

        Decisions, deliveries and dead letters are kept four times as long as inputs: people come back to them later. The
        policies topic and its dead letters have one partition because each worker reads all of it. `min.insync.replicas` follows
        the replication factor: two of three, else one.
        """
        size = {"max.message.bytes": str(max_event_bytes + RECORD_OVERHEAD_BYTES)}
        safe = {"min.insync.replicas": "2" if replication_factor >= 3 else "1"}
        expiring = {**size, **safe, "cleanup.policy": "delete", "retention.ms": str(input_retention_ms)}
        lasting = {**expiring, "retention.ms": str(4 * input_retention_ms)}
        compacted = {**size, **safe, "cleanup.policy": "compact", "retention.ms": "-1"}
        for name in self.inputs:
            yield TopicSpec(name=name, partitions=partitions, config=expiring)
        for name in (self.decisions, self.deliveries):
            yield TopicSpec(name=name, partitions=partitions, config=lasting)
        for name in (*self.inputs, self.decisions):
            letters = {**lasting, "max.message.bytes": str(MAX_DEAD_LETTER_BYTES)}
            yield TopicSpec(name=self.dead_letters(name), partitions=partitions, config=letters)
        yield TopicSpec(name=self.policies, partitions=1, config=compacted)
        yield TopicSpec(name=self.dead_letters(self.policies), partitions=1, config=letters)
        if group is not None:
            changelog = {**compacted, "segment.bytes": str(CHANGELOG_SEGMENT_BYTES)}
            yield TopicSpec(name=self.changelog(group), partitions=partitions, config=changelog)


@lru_cache(maxsize=65536)
def partition_of(run_id: str, partitions: int) -> int:
    """Return the partition of a run: murmur2 of its UTF-8 key, as the Java client, aiokafka and Faust compute it."""
    return int((murmur2(run_id.encode()) & 0x7FFFFFFF) % partitions)
