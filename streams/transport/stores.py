"""Where a `BatchTable` keeps its keys: in memory or in RocksDB, partition by partition."""

import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from faust.stores import memory, rocksdb
from faust.types import TP

from streams.transport.changelog import AppliedOffset

Changes = Mapping[bytes, bytes | None]

#: Bytes of RocksDB's block cache and write buffer per partition, in place of Faust's 2 GiB and 64 MiB: run states are
#: small, and a worker has dozens of partitions.
ROCKSDB_BLOCK_CACHE = 32 * 1024 * 1024
ROCKSDB_WRITE_BUFFER = 16 * 1024 * 1024


class Size(NamedTuple):
    """What a partition holds: its keys, and their bytes with the values (RocksDB: of its files and write buffers)."""

    keys: int
    bytes: int


class PartitionStore(Protocol):
    """What a table needs from its store."""

    def read(self, partition: int, key: bytes) -> bytes | None:
        """Return the value of a key, None without one."""

    def write(self, partition: int, changes: Changes, applied: int | None) -> None:
        """Apply values and deletions (None), and note up to which changelog offset the partition is complete."""

    def applied(self, partition: int) -> AppliedOffset:
        """Return the partition's position in the changelog, to be moved on before `write`."""

    def keys_of(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of a partition as they are at the call."""

    def discard_foreign(self, partition: int, changelog: str, end: int) -> str | None:
        """Discard what a partition holds unless it is of this changelog, which ends before offset `end`; return why."""

    def size_of(self, partition: int) -> Size:
        """Return how much a partition holds, without looking through it."""


#: Where a RocksDB partition keeps the number of its keys (RocksDB's own estimate counts every overwrite of a key).
_COUNT_KEY = b"\xff\x00count"

#: Key under which a database names the changelog that it is of.
_CHANGELOG_KEY = b"\xff\x00changelog"


class MemoryStore(memory.Store[bytes, bytes]):
    """One dictionary per partition; a partition that goes away takes its keys with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._partitions: dict[int, dict[bytes, bytes]] = {}
        self._bytes: dict[int, int] = {}
        self._applied: dict[int, AppliedOffset] = {}

    def read(self, partition: int, key: bytes) -> bytes | None:
        """Return the value of a key, None without one."""
        values = self._partitions.get(partition)
        return None if values is None else values.get(key)

    def write(self, partition: int, changes: Changes, applied: int | None) -> None:
        """Apply values and deletions; the position in the changelog is kept by `applied`."""
        values = self._partitions.setdefault(partition, {})
        grown = 0
        for key, value in changes.items():
            old = values.pop(key, None) if value is None else values.get(key)
            grown -= 0 if old is None else len(key) + len(old)
            if value is not None:
                values[key] = value
                grown += len(key) + len(value)
        self._bytes[partition] = self._bytes.get(partition, 0) + grown

    def applied(self, partition: int) -> AppliedOffset:
        """Return the partition's position in the changelog."""
        return self._applied.setdefault(partition, AppliedOffset())

    def keys_of(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of a partition as they are at the call."""
        yield from tuple(self._partitions.get(partition, ()))

    def size_of(self, partition: int) -> Size:
        """Return the number of keys, and the bytes of keys and values."""
        return Size(len(self._partitions.get(partition, ())), self._bytes.get(partition, 0))

    def discard_foreign(self, partition: int, changelog: str, end: int) -> str | None:
        """Do nothing: what is in memory was read by this process."""
        return None

    def drop(self, partition: int) -> None:
        """Forget a partition."""
        self._partitions.pop(partition, None)
        self._bytes.pop(partition, None)
        self._applied.pop(partition, None)

    def persisted_offset(self, tp: TP) -> int | None:
        """Return the changelog offset after which a recovery has to read; None for all of it."""
        applied = self._applied.get(tp.partition)
        return None if applied is None else applied.offset

    async def on_rebalance(self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0) -> None:
        """Drop what went away, and what a late write left behind of what comes."""
        changelog = self.table.changelog_topic.get_topic_name()
        for tp in revoked | newly_assigned:
            if tp.topic == changelog:
                self.drop(tp.partition)

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Drop every partition that is not this worker's."""
        kept = {tp.partition for tp in active_tps | standby_tps}
        for partition in set(self._partitions) - kept:
            self.drop(partition)

    def __len__(self) -> int:
        return sum(map(len, self._partitions.values()))


class RocksDBStore(rocksdb.Store):
    """One database per partition. It stays on disk with its position in the changelog when the partition goes away.

    Keys of our own are no UTF-8: run ids are, and may be anything.
    """

    #: Faust's own could be a run id.
    offset_key = b"\xff\x00offset"

    def __init__(self, *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        sizes = {"block_cache_size": ROCKSDB_BLOCK_CACHE, "write_buffer_size": ROCKSDB_WRITE_BUFFER}
        super().__init__(*args, options={**sizes, **(options or {})}, **kwargs)
        self._applied: dict[int, AppliedOffset] = {}
        self._counts: dict[int, int] = {}

    def read(self, partition: int, key: bytes) -> bytes | None:
        """Return the value of a key, None without one."""
        value: bytes | None = self._db_for_partition(partition).get(key)
        return value

    def write(self, partition: int, changes: Changes, applied: int | None) -> None:
        """Apply values, deletions, the number of keys and the position in the changelog in one atomic write."""
        import rocksdict

        database = self._db_for_partition(partition)
        count = self._count(partition)
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in changes.items():
            count += (value is not None) - (key in database)
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        batch.put(_COUNT_KEY, str(count).encode())
        if applied is not None:
            batch.put(self.offset_key, str(applied).encode())
        database.write(batch)
        self._counts[partition] = count

    def _count(self, partition: int) -> int:
        if partition not in self._counts:
            stored = self._db_for_partition(partition).get(_COUNT_KEY)
            # A database of a release that did not count yet is looked through, once.
            self._counts[partition] = sum(1 for _ in self.keys_of(partition)) if stored is None else int(stored)
        return self._counts[partition]

    def size_of(self, partition: int) -> Size:
        """Return the number of keys, and the bytes of the files and write buffers."""
        database = self._dbs.get(partition)
        if database is None:
            return Size(0, 0)
        parts = ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
        return Size(self._count(partition), sum(database.property_int_value(part) or 0 for part in parts))

    def applied(self, partition: int) -> AppliedOffset:
        """Return the partition's position in the changelog."""
        if partition not in self._applied:
            stored = self._db_for_partition(partition).get(self.offset_key)
            self._applied[partition] = AppliedOffset(None if stored is None else int(stored))
        return self._applied[partition]

    def keys_of(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of a partition as they are at the call (RocksDB iterates over a snapshot)."""
        for key in self._db_for_partition(partition).keys():  # noqa: SIM118  (not a mapping)
            if key not in (self.offset_key, _COUNT_KEY, _CHANGELOG_KEY):
                yield key

    def discard_foreign(self, partition: int, changelog: str, end: int) -> str | None:
        """Discard a database that was filled from another changelog, or from one that has been cut short since."""
        database = self._db_for_partition(partition)
        stored, applied = database.get(_CHANGELOG_KEY), self.applied(partition).offset
        reason = None
        if stored != changelog.encode() and next(iter(database.keys()), None) is not None:
            reason = "it is of another changelog"
        elif applied is not None and applied >= end:
            reason = f"it is at offset {applied}, but the changelog ends at {end}"
        if reason is not None:
            self._applied.pop(partition, None)
            self._counts.pop(partition, None)
            self._dbs.pop(partition).close()
            shutil.rmtree(self.partition_path(partition))
            database = self._db_for_partition(partition)
        if stored is None or reason is not None:
            database.put(_CHANGELOG_KEY, changelog.encode())
        return reason

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close databases at once, so that their locks are free for another worker on this machine."""
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self._applied.pop(tp.partition, None)
                self._counts.pop(tp.partition, None)
                database = self._dbs.pop(tp.partition, None)
                if database is not None:
                    database.close()

    async def stop(self) -> None:
        """Close all databases."""
        self._applied.clear()
        self._counts.clear()
        while self._dbs:
            self._dbs.popitem()[1].close()
        await super().stop()
