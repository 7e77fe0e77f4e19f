"""A table of raw bytes that is written and recovered many keys at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, cast

from faust.tables.table import Table
from faust.types import TP, EventT
from yarl import URL

from streams.transport.producer import ProducerRecord, send_batches
from streams.transport.stores import MemoryStore, PartitionStore, RocksDBStore

Newer = Callable[[bytes, bytes], bool]

_STORES = {"memory": MemoryStore, "rocksdb": RocksDBStore}


class BatchTable(Table[bytes, bytes]):
    """A changelogged table of `bytes` to `bytes`, addressed by partition and key.

    `newer(old, new)` says whether a changelog value may replace the one before it; without it the later one always
    does. It is there for values that a paused worker wrote after its partition had moved on. Made with
    `app.Table(name, partitions=N, newer=...)` when `BatchTable` is the app's `Table` setting. Item access
    (`table[key] = value`) is not supported: use `put_many`.
    """

    def __init__(self, app: Any, *, newer: Newer | None = None, **options: Any) -> None:
        super().__init__(app, **{**options, "key_type": bytes, "value_type": bytes})
        self.newer = newer

    @property
    def partitioned(self) -> PartitionStore:
        """The store."""
        return cast(PartitionStore, self.data)

    def get_raw(self, partition: int, key: bytes) -> bytes | None:
        """Return the stored value of a key, None without one."""
        return self.partitioned.read(partition, key)

    def keys_of(self, partition: int) -> Iterator[bytes]:
        """Yield the keys of one partition; writing while iterating is fine."""
        return self.partitioned.keys_of(partition)

    async def put_many(self, partition: int, changes: Mapping[bytes, bytes | None]) -> None:
        """Write values and deletions (None) to the changelog, wait for the acknowledgement, then change the store.

        Raises `SendError` when the changelog is not written for certain; the store is unchanged then.
        """
        records = (ProducerRecord(key, value) for key, value in changes.items())
        written = await send_batches(self.app, self.changelog_topic_name, partition, records)
        if written is None:
            return
        applied = self.partitioned.applied(partition)
        follows = applied.wrote(written.first, written.last, written.count)
        self.partitioned.write(partition, changes, applied.offset if follows else None)

    def apply_records(self, partition: int, records: Iterable[Any]) -> None:
        """Apply changelog records (anything with `offset`, `key`, `value`) of one partition, in order.

        Those that were applied before are skipped.
        """
        store = self.partitioned
        applied = store.applied(partition)
        changes: dict[bytes, bytes | None] = {}
        for record in records:
            if applied.offset is not None and record.offset <= applied.offset:
                continue
            applied.read(record.offset)
            if self.newer is not None and record.value is not None:
                old = changes[record.key] if record.key in changes else store.read(partition, record.key)
                if old is not None and not self.newer(old, record.value):
                    continue
            changes[record.key] = record.value
        store.write(partition, changes, applied.offset)

    def apply_changelog_batch(self, batch: Iterable[EventT[Any]]) -> None:
        """Apply what Faust itself delivers in a recovery: mostly records that `apply_records` has seen before."""
        by_partition: dict[int, list[Any]] = {}
        for event in batch:
            by_partition.setdefault(event.message.partition, []).append(event.message)
        for partition, messages in by_partition.items():
            self.apply_records(partition, messages)

    def persisted_offset(self, tp: TP) -> int | None:
        """Return the changelog offset after which a recovery has to read; None for all of it."""
        return self.partitioned.applied(tp.partition).offset

    def on_key_set(self, key: Any, value: Any) -> NoReturn:
        """Refuse item access."""
        raise TypeError(f"table {self.name}: write with `await table.put_many(partition, changes)`, not item by item")

    def on_key_del(self, key: Any) -> NoReturn:
        """Refuse item access."""
        raise TypeError(f"table {self.name}: delete with `await table.put_many(partition, {{key: None}})`")

    def _new_store_by_url(self, url: str | URL) -> Any:
        scheme = URL(url).scheme
        if scheme not in _STORES:
            raise ValueError(
                f"table {self.name}: unknown store {url}; choose one of {', '.join(f'{known}://' for known in _STORES)}"
            )
        return _STORES[scheme](
            url,
            self.app,
            self,
            table_name=self.name,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            loop=self.loop,
            options=self.options,
        )
