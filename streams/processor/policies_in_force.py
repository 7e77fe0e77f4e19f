"""Which policy each owned partition is judged by, and how it gets another one.

The policy in force is part of a partition's state: it stands in the changelog with the input offsets from which it holds, and a
`policy.applied` marker on the decisions topic says the same. A partition changes its policy between two batches, in steps that a
worker may die between: states and offsets are committed, the policy is written (not yet announced, not yet judged by), the marker
is published, the runs are judged again in slices, and each step is noted in the record. It gets the next policy only when that is
through.

After a takeover the partition is first read as far as its inputs went at that time, under its stored policy: the worker before
may have decided about all of that and died before it committed.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec
import structlog
from faust.types import TP

from schemas.policy import PolicyDocument
from schemas.policy_records import MAX_POLICY_BYTES, PublishedPolicies, policy_bytes
from schemas.topics import Topics
from streams.processor.owned_runs import OwnedRuns
from streams.processor.partition_policy import PartitionPolicy

log = structlog.get_logger()


class Effects(Protocol):
    """What a change of policy needs done by the processor."""

    async def commit(self) -> None:
        """Write states and commit offsets, as far as batches were processed."""

    async def announce(self, partition: int, policy: PartitionPolicy, version: str) -> None:
        """Publish the marker."""

    def next_offset(self, topic: str, partition: int) -> int:
        """Return the first offset of an input that no batch was processed of."""

    def ensure_owned(self) -> None:
        """Raise `StaleBatch` when the partitions may not be ours any more."""


class PoliciesInForce:
    """The policies of the owned partitions, and the one that is wanted."""

    def __init__(self, runs: OwnedRuns, *, topics: Topics) -> None:
        #: Set as soon as it is known which policy is wanted: nothing can be judged before.
        self.known = asyncio.Event()
        self._published = PublishedPolicies(PolicyDocument.from_mapping({}))
        self._wanted: dict[str, PolicyDocument] = {}
        self._runs = runs
        self._topics = topics
        self._owned: tuple[int, ...] = ()
        self._stored: dict[int, PartitionPolicy] = {}
        self._documents: dict[int, PolicyDocument] = {}
        self._unjudged: dict[int, Iterator[bytes]] = {}
        self._to_tell: set[int] = set()
        #: Per input partition of a takeover, where its end was then; None until a fetch has told.
        self._catching_up: dict[int, dict[str, int | None]] = {}

    # -- what is wanted --------------------------------------------------------------------------------------------------------

    def want(self, published: PublishedPolicies) -> None:
        """Want what is published in every partition.

        A partition whose policy stays the same tells its marker once more, so that whoever published can wait for it.
        """
        if self.known.is_set():
            self._to_tell = set(self._owned)
        self._published = published
        self._wanted.clear()
        self.known.set()

    def _wanted_by(self, partition: int) -> PolicyDocument:
        in_force = self._documents.get(partition)
        version = "" if in_force is None else in_force.version
        if version not in self._wanted:
            wanted = self._published.combined(in_force=in_force)
            size = policy_bytes(wanted)
            if size > MAX_POLICY_BYTES:
                log.error("published policies refused, what is in force stays", bytes=size, at_most=MAX_POLICY_BYTES)
                wanted = in_force or self._published.fallback
            self._wanted[version] = wanted
        return self._wanted[version]

    # -- partitions come and go ------------------------------------------------------------------------------------------------

    def take_over(self, partitions: Iterable[int]) -> None:
        """Read the stored policies of the partitions that are owned now."""
        self._owned = tuple(partitions)
        self._stored.clear()
        self._documents.clear()
        self._unjudged.clear()
        self._to_tell.clear()
        self._catching_up.clear()
        for partition in self._owned:
            stored = self._runs.policy(partition)
            if stored is None:
                continue
            self._stored[partition] = stored
            self._documents[partition] = stored.document()
            self._catching_up[partition] = dict.fromkeys(self._topics.inputs)
            if not stored.judged:
                self._unjudged[partition] = self._runs.keys(partition)

    @property
    def owned(self) -> tuple[int, ...]:
        """The owned partitions."""
        return self._owned

    def of(self, partition: int) -> PolicyDocument | None:
        """Return the policy that a partition is judged by, None when it has none yet."""
        return self._documents.get(partition)

    def announced(self, partition: int) -> PolicyDocument | None:
        """Return the policy that a partition is judged by, None as long as its marker is not on the decisions topic."""
        stored = self._stored.get(partition)
        return self._documents.get(partition) if stored is not None and stored.announced else None

    async def look_for_ends(self, consumer: Any, next_offset: Callable[[str, int], int]) -> None:
        """Find out which partitions have been read as far as their inputs went when they were taken over."""
        for partition, ends in list(self._catching_up.items()):
            for topic, end in list(ends.items()):
                tp = TP(topic, partition)
                if end is None:
                    ends[topic] = end = consumer.highwater(tp)
                if end is None:
                    continue
                # A busy partition always has something in hand, so what was processed is asked first.
                if next_offset(topic, partition) >= end or await consumer.is_processed_up_to(tp, end):
                    ends.pop(topic, None)
            if not ends and self._catching_up.get(partition) is ends:
                del self._catching_up[partition]

    # -- changing it -----------------------------------------------------------------------------------------------------------

    def due(self) -> list[int]:
        """Return the partitions that can get another policy, or whose marker is missing."""
        return [partition for partition in self._owned if self._is_due(partition)]

    def _is_due(self, partition: int) -> bool:
        stored = self._stored.get(partition)
        if stored is None:
            return self.known.is_set()
        if not stored.announced:
            return True
        if not self.known.is_set():
            return False
        if self._wanted_by(partition).version == self._documents[partition].version:
            return partition in self._to_tell
        return partition not in self._unjudged and partition not in self._catching_up

    async def change(self, partitions: Iterable[int], effects: Effects) -> None:
        """Give partitions the policy that is wanted; raises `StaleBatch` and `SendError`."""
        await effects.commit()
        changes = (self._change(partition, effects) for partition in partitions)
        for outcome in await asyncio.gather(*changes, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _change(self, partition: int, effects: Effects) -> None:
        stored = self._stored.get(partition)
        wanted = self._wanted_by(partition)
        if stored is None or (stored.announced and wanted.version != self._documents[partition].version):
            stored = PartitionPolicy(
                policy=wanted.to_mapping(),
                tool_calls_offset=effects.next_offset(self._topics.tool_calls, partition),
                compactions_offset=effects.next_offset(self._topics.compactions, partition),
            )
            await self._put(partition, stored, effects)
            self._documents[partition] = wanted
            self._unjudged[partition] = self._runs.keys(partition)
        version = self._documents[partition].version
        if not stored.announced:
            effects.ensure_owned()
            await effects.announce(partition, stored, version)
            await self._put(partition, msgspec.structs.replace(stored, announced=True), effects)
            log.info("policy in force", partition=partition, policy_version=version)
        elif partition in self._to_tell:
            effects.ensure_owned()
            await effects.announce(partition, stored, version)
        self._to_tell.discard(partition)

    async def _put(self, partition: int, policy: PartitionPolicy, effects: Effects) -> None:
        effects.ensure_owned()
        await self._runs.put_policy(partition, policy)
        self._stored[partition] = policy

    # -- judging again ---------------------------------------------------------------------------------------------------------

    def next_slice(self, size: int) -> tuple[int, list[bytes]] | None:
        """Return a partition and keys of runs to be judged again; no keys when all of them have been."""
        for partition, keys in self._unjudged.items():
            if self._stored[partition].announced:
                return partition, list(itertools.islice(keys, size))
        return None

    async def all_judged(self, partition: int, effects: Effects) -> None:
        """Note that every run of a partition is judged by its policy; the states must be written."""
        await self._put(partition, msgspec.structs.replace(self._stored[partition], judged=True), effects)
        self._unjudged.pop(partition, None)

    def forget_progress(self) -> None:
        """Judge the runs again from the first: states that were judged may not have been written."""
        for partition in self._unjudged:
            self._unjudged[partition] = self._runs.keys(partition)
