"""Writing and recovering tables of raw bytes."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest

from streams.transport import BatchTable, batch_app_settings

STORES = ["memory://", "rocksdb://"]


def record(offset: int, key: bytes, value: bytes | None) -> Any:
    return SimpleNamespace(offset=offset, key=key, value=value)


@pytest.fixture(params=STORES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> BatchTable:
    """A table of an app that is not started."""
    settings = batch_app_settings(bootstrap_servers="127.0.0.1:1", store=request.param, data_dir=tmp_path)
    app = faust.App("unstarted", **settings)
    made = app.Table("runs", partitions=4, newer=lambda old, new: new >= old)
    assert isinstance(made, BatchTable)
    return made


def contents(table: BatchTable, partition: int) -> dict[bytes, bytes | None]:
    return {key: table.get_raw(partition, key) for key in table.keys_of(partition)}


def test_applies_records_and_tombstones_in_order(table: BatchTable) -> None:
    table.apply_records(1, [record(0, b"a", b"1"), record(1, b"b", b"1"), record(2, b"a", b"2"), record(3, b"b", None)])
    assert contents(table, 1) == {b"a": b"2"}
    table.apply_records(1, [record(4, b"b", b"3"), record(5, b"a", None)])
    assert contents(table, 1) == {b"b": b"3"}
    assert contents(table, 0) == {}
    assert table.get_raw(1, b"a") is None


def test_skips_what_it_has_applied_before(table: BatchTable) -> None:
    table.apply_records(0, [record(0, b"a", b"1"), record(1, b"a", None)])
    table.apply_records(0, [record(0, b"a", b"1")])
    assert contents(table, 0) == {}


def test_an_older_value_never_replaces_a_newer_one(table: BatchTable) -> None:
    """Neither within a slice of the changelog nor across two."""
    table.apply_records(0, [record(0, b"a", b"5"), record(1, b"a", b"3"), record(2, b"b", b"5")])
    table.apply_records(0, [record(3, b"b", b"4"), record(4, b"b", b"5")])
    assert contents(table, 0) == {b"a": b"5", b"b": b"5"}


def test_without_newer_the_later_value_wins(table: BatchTable) -> None:
    table.newer = None
    table.apply_records(0, [record(0, b"a", b"5"), record(1, b"a", b"3")])
    assert contents(table, 0) == {b"a": b"3"}


def test_knows_up_to_where_it_is_complete(table: BatchTable) -> None:
    changelog = table.changelog_topic_name
    assert table.persisted_offset(faust.types.TP(changelog, 2)) is None
    table.apply_records(2, [record(7, b"a", b"1"), record(9, b"b", b"1")])
    assert table.persisted_offset(faust.types.TP(changelog, 2)) == 9


def test_writing_while_iterating_over_keys_is_fine(table: BatchTable) -> None:
    table.apply_records(0, [record(number, b"%d" % number, b"1") for number in range(10)])
    for number, key in enumerate(table.keys_of(0)):
        table.apply_records(0, [record(10 + number, key, None)])
    assert contents(table, 0) == {}


def test_item_access_is_refused_with_the_remedy(table: BatchTable) -> None:
    with pytest.raises(TypeError, match="put_many"):
        table[b"a"] = b"1"
    with pytest.raises(TypeError, match="put_many"):
        del table[b"a"]


async def test_a_partition_that_goes_away_takes_its_keys_along(tmp_path: Path) -> None:
    app = faust.App("unstarted", **batch_app_settings(bootstrap_servers="127.0.0.1:1", data_dir=tmp_path))
    table = app.Table("runs", partitions=2)
    changelog = table.changelog_topic_name
    for partition in range(2):
        table.apply_records(partition, [record(0, b"a", b"1")])
    await table.on_rebalance(set(), {faust.types.TP(changelog, 1), faust.types.TP("other", 0)}, set(), 1)
    assert contents(table, 0) == {b"a": b"1"}
    assert contents(table, 1) == {}
    assert table.persisted_offset(faust.types.TP(changelog, 1)) is None, "a recovery must read all of it"


async def test_rocksdb_keeps_keys_and_position_over_a_restart(tmp_path: Path) -> None:
    def opened() -> BatchTable:
        settings = batch_app_settings(bootstrap_servers="127.0.0.1:1", store="rocksdb://", data_dir=tmp_path)
        made: BatchTable = faust.App("unstarted", **settings).Table("runs", partitions=2)
        return made

    first = opened()
    first.apply_records(1, [record(0, b"a", b"1"), record(1, b"b", b"1"), record(2, b"b", None)])
    await first.data.stop()
    second = opened()
    assert contents(second, 1) == {b"a": b"1"}
    assert second.persisted_offset(faust.types.TP(second.changelog_topic_name, 1)) == 2


def test_an_unknown_store_is_an_error(tmp_path: Path) -> None:
    settings = batch_app_settings(bootstrap_servers="127.0.0.1:1", store="aerospike://", data_dir=tmp_path)
    with pytest.raises(ValueError, match="choose one of memory://, rocksdb://"):
        _ = faust.App("unstarted", **settings).Table("runs", partitions=2).data


@pytest.mark.broker
@pytest.mark.parametrize("store", STORES)
async def test_a_restart_recovers_every_key(store: str, worker_factory: Any, topic_factory: Any) -> None:
    """All of the changelog, to its very end, in slices; deletions included."""
    topic = topic_factory(partitions=3)
    first = await worker_factory([topic], partitions=3, store=store)
    for partition in range(3):
        for start in range(0, 3000, 1000):
            values = {b"%d" % number: b"%d" % (partition + number) for number in range(start, start + 1000)}
            await first.table.put_many(partition, values)
        await first.table.put_many(partition, dict.fromkeys((b"%d" % number for number in range(0, 3000, 3)), None))
        await first.table.put_many(partition, {b"last": b"one"})
    expected = [contents(first.table, partition) for partition in range(3)]
    assert [len(found) for found in expected] == [2001, 2001, 2001]
    await first.stop()
    second = await worker_factory([topic], group=first.app.conf.id, partitions=3, store=store)
    assert [contents(second.table, partition) for partition in range(3)] == expected


@pytest.mark.broker
async def test_rocksdb_reads_only_what_it_has_not_seen(worker_factory: Any, topic_factory: Any, tmp_path: Path) -> None:
    topic = topic_factory(partitions=1)
    options: dict[str, Any] = {"partitions": 1, "store": "rocksdb://", "data_dir": tmp_path / "kept"}
    first = await worker_factory([topic], **options)
    await first.table.put_many(0, {b"a": b"1", b"b": b"1"})
    await first.table.put_many(0, {b"a": b"2"})
    await first.stop()
    applied: list[int] = []

    def note(worker: Any) -> None:
        apply = worker.table.apply_records

        def noting(partition: int, records: Any) -> None:
            applied.extend(found.offset for found in records)
            apply(partition, records)

        worker.table.apply_records = noting

    second = await worker_factory([topic], group=first.app.conf.id, setup=note, **options)
    assert contents(second.table, 0) == {b"a": b"2", b"b": b"1"}
    assert set(applied) <= {2}, "Faust reads the last record again, no more"


@pytest.mark.broker
async def test_recovery_keeps_the_newer_of_two_writers(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    """A paused worker's late write stands behind the newer one in the changelog."""
    topic = topic_factory(partitions=1)
    first = await worker_factory([topic], partitions=1)
    await first.table.put_many(0, {b"k": b"7"})
    await fill(first.table.changelog_topic_name, 0, [b"6"], key=b"k")
    await first.stop()
    second = await worker_factory([topic], group=first.app.conf.id, partitions=1, newer=lambda old, new: int(new) >= int(old))
    assert contents(second.table, 0) == {b"k": b"7"}


@pytest.mark.broker
async def test_a_rebalance_reads_what_others_wrote_in_between(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    """Also behind an own write that came later: a kept partition is complete only up to the first foreign record."""
    topic = topic_factory(partitions=2)
    one = await worker_factory([topic], partitions=2)
    for partition in range(2):
        await one.table.put_many(partition, {b"own": b"1"})
        await fill(one.table.changelog_topic_name, partition, [b"1"], key=b"foreign")
        await one.table.put_many(partition, {b"own": b"2"})
        assert contents(one.table, partition) == {b"own": b"2"}
    two = await worker_factory([topic], group=one.app.conf.id, partitions=2)
    await one.until(lambda: len(one.taken_over) >= 2)
    (kept,) = one.assigned(topic)
    assert contents(one.table, kept) == {b"own": b"2", b"foreign": b"1"}
    (moved,) = two.assigned(topic)
    assert contents(two.table, moved) == {b"own": b"2", b"foreign": b"1"}
    assert contents(one.table, moved) == {}, "its keys are gone"


@pytest.mark.broker
async def test_many_partitions_recover_while_records_wait(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    """Nothing is delivered before the tables are complete."""
    topic = topic_factory(partitions=8)
    first = await worker_factory([topic], partitions=8)
    for partition in range(8):
        await first.table.put_many(partition, {b"%d" % number: b"x" * 50 for number in range(2000)})
    await first.stop()
    await asyncio.gather(*(fill(topic, partition, [b"event"]) for partition in range(8)))
    sizes: list[int] = []

    async def count(batch: Any) -> None:
        sizes.append(sum(1 for _ in box[0].table.keys_of(batch.partition)))
        batch.done()

    box: list[Any] = []
    second = await worker_factory([topic], group=first.app.conf.id, partitions=8, process=count, setup=box.append)
    await second.until_received(8)
    assert sizes == [2000] * 8


@pytest.fixture
def on_disk(tmp_path: Path) -> BatchTable:
    """A table on disk that holds key `a` up to changelog offset 7 of partition 0."""
    app = faust.App("unstarted", **batch_app_settings(bootstrap_servers="127.0.0.1:1", store="rocksdb://", data_dir=tmp_path))
    table: BatchTable = app.Table("runs", partitions=2)
    table.partitioned.discard_foreign(0, "cluster/changelog", 8)
    table.apply_records(0, [record(7, b"a", b"1")])
    return table


def test_a_database_of_this_changelog_is_kept(on_disk: BatchTable) -> None:
    assert on_disk.partitioned.discard_foreign(0, "cluster/changelog", 8) is None
    assert contents(on_disk, 0) == {b"a": b"1"}


@pytest.mark.parametrize(
    ("changelog", "end"), [("other-cluster/changelog", 8), ("cluster/other-changelog", 8), ("cluster/changelog", 7)]
)
def test_a_database_of_another_changelog_or_of_a_longer_one_is_discarded(on_disk: BatchTable, changelog: str, end: int) -> None:
    assert on_disk.partitioned.discard_foreign(0, changelog, end)
    assert contents(on_disk, 0) == {}
    assert on_disk.persisted_offset(faust.types.TP(on_disk.changelog_topic_name, 0)) is None
    on_disk.apply_records(0, [record(0, b"b", b"1")])
    assert on_disk.partitioned.discard_foreign(0, changelog, 1) is None, "from now on it is of that changelog"


def test_a_key_that_is_called_like_fausts_own_is_a_key_like_any_other(on_disk: BatchTable) -> None:
    on_disk.apply_records(0, [record(8, b"__faust\0offset__", b"1")])
    assert contents(on_disk, 0) == {b"a": b"1", b"__faust\0offset__": b"1"}
    assert on_disk.persisted_offset(faust.types.TP(on_disk.changelog_topic_name, 0)) == 8
