"""What a store says of its size, without looking through it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import faust
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transport import BatchTable, batch_app_settings

Tables = Callable[[str], BatchTable]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Tables]:
    """Open a table in a store: `opened("rocksdb://")`; the data stay between two calls."""
    tables: list[Any] = []

    def opener(store: str) -> BatchTable:
        options = batch_app_settings(bootstrap_servers="127.0.0.1:1", store=store, data_dir=tmp_path)
        table = cast(BatchTable, faust.App("sizes", **options).Table("runs", partitions=2))
        tables.append(table)
        return table

    yield opener
    for table in tables:
        for database in getattr(table.data, "_dbs", {}).values():
            database.close()


def write(table: BatchTable, changes: dict[bytes, bytes | None], partition: int = 0) -> None:
    table.partitioned.write(partition, changes, None)


@pytest.mark.parametrize("store", ["memory://", "rocksdb://"])
def test_keys_are_counted_exactly(opened: Tables, store: str) -> None:
    table = opened(store)
    assert table.partitioned.size_of(0) == (0, 0)
    for version in range(50):  # the same keys again and again, as runs are written
        write(table, {b"%d" % number: b"x" * version for number in range(10)})
    assert table.partitioned.size_of(0).keys == 10
    write(table, {b"3": None, b"not there": None, b"new": b""})
    assert table.partitioned.size_of(0).keys == 10
    assert table.partitioned.size_of(1).keys == 0
    assert len(list(table.keys_of(0))) == 10


Changes = st.dictionaries(st.sampled_from([b"a", b"bb", b"ccc"]), st.none() | st.binary(max_size=20))


@given(st.lists(Changes, max_size=20))
def test_bytes_in_memory_are_those_of_keys_and_values(steps: list[dict[bytes, bytes | None]]) -> None:
    options = batch_app_settings(bootstrap_servers="127.0.0.1:1", store="memory://")
    table = cast(BatchTable, faust.App("sizes", **options).Table("runs", partitions=2))
    held: dict[bytes, bytes] = {}
    for changes in steps:
        write(table, changes)
        for key, value in changes.items():
            held.pop(key, None)
            if value is not None:
                held[key] = value
    assert table.partitioned.size_of(0) == (len(held), sum(len(key) + len(value) for key, value in held.items()))


def test_a_partition_in_memory_that_goes_away_has_no_size(opened: Tables) -> None:
    table = opened("memory://")
    write(table, {b"a": b"value"})
    table.data.drop(0)  # type: ignore[attr-defined]  # the memory store's own
    assert table.partitioned.size_of(0) == (0, 0)


def test_rocksdb_has_the_size_of_what_it_keeps(opened: Tables) -> None:
    table = opened("rocksdb://")
    write(table, {b"%d" % number: bytes([number]) * 10_000 for number in range(100)})
    assert 1_000_000 <= table.partitioned.size_of(0).bytes < 10_000_000


async def test_rocksdb_still_knows_the_number_of_keys_after_a_restart(opened: Tables) -> None:
    table = opened("rocksdb://")
    write(table, {b"a": b"1", b"b": b"2"})
    await table.data.stop()
    table = opened("rocksdb://")
    write(table, {b"c": b"3"})
    assert table.partitioned.size_of(0).keys == 3


async def test_a_database_that_nobody_counted_is_counted_once(opened: Tables) -> None:
    table = opened("rocksdb://")
    database = table.data._db_for_partition(0)  # type: ignore[attr-defined]  # as a release before wrote it
    for number in range(7):
        database.put(b"%d" % number, b"x")
    write(table, {b"0": b"y", b"new": b"z"})
    assert table.partitioned.size_of(0).keys == 8
