"""Several workers in processes of their own: which partitions they share out, and what survives kills, pauses and stops."""

import ast
import asyncio
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.broker

SCRIPT = Path(__file__).with_name("counting_worker.py")
PARTITIONS = 4
KEYS = 25
STATE = struct.Struct(">QQQ")


class WorkerProcess:
    """A `counting_worker` and its log."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        self.file = log.open("w")
        command = [sys.executable, str(SCRIPT), *arguments]
        self.process = subprocess.Popen(command, stdout=self.file, stderr=subprocess.STDOUT)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end_by(self, number: signal.Signals) -> int:
        self.send(number)
        return self.process.wait(15)

    def lines(self, start: str) -> list[str]:
        whole, _, _ = self.log.read_text().rpartition("\n")  # what is behind it is written this moment
        return [line for line in whole.splitlines() if line.startswith(start)]

    @property
    def assignments(self) -> list[list[tuple[str, int]]]:
        return [ast.literal_eval(line.removeprefix("assigned: ")) for line in self.lines("assigned:")]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.file.close()


class Group:
    """Topics, a group of workers, and what must come out of it."""

    def __init__(self, traits: Any, name: str, calls: str, compactions: str, decisions: str, folder: Path) -> None:
        self.traits, self.name, self.folder = traits, name, folder
        self.calls, self.compactions, self.decisions = calls, compactions, decisions
        self.workers: list[WorkerProcess] = []
        self.sent: dict[str, list[int]] = {calls: [0] * PARTITIONS, compactions: [0] * PARTITIONS}

    def start(self, **options: object) -> WorkerProcess:
        number = len(self.workers)
        folder = self.folder / f"worker{number}"
        folder.mkdir()
        options = {
            "session_timeout": self.traits.session_timeout,
            "heartbeat_interval": self.traits.heartbeat_interval,
            "idempotence": self.traits.idempotent_producer,
            **options,
        }
        arguments = [self.traits.bootstrap_servers, self.name, self.calls, self.compactions, self.decisions, str(PARTITIONS)]
        arguments += [str(folder / "data"), *(f"{key}={value}" for key, value in options.items())]
        worker = WorkerProcess(arguments, self.folder / f"worker{number}.log")
        self.workers.append(worker)
        return worker

    async def until(self, condition: Callable[[], bool], seconds: float = 25.0) -> None:
        """Poll: other processes' logs cannot be awaited."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "\n".join(worker.log.read_text()[-3000:] for worker in self.workers)
            await asyncio.sleep(0.02)

    async def send(self, fill_keyed: Any, count: int) -> None:
        """Write `count` events to every partition of both topics."""
        for topic, sent in self.sent.items():
            for partition in range(PARTITIONS):
                await fill_keyed(topic, partition, range(sent[partition], sent[partition] + count))
                sent[partition] += count

    async def until_committed(self, committed: Any, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            found = {topic: await committed(self.name, topic, partitions=PARTITIONS) for topic in self.sent}
            if all(list(found[topic].values()) == sent for topic, sent in self.sent.items()):
                return
            assert time.monotonic() < deadline, f"{found}\n" + "\n".join(w.log.read_text()[-3000:] for w in self.workers)
            await asyncio.sleep(0.1)


@pytest.fixture
def group(broker_traits: Any, topic_factory: Any, unique_name: Any, tmp_path: Path) -> Iterator[Group]:
    topics = [topic_factory(partitions=PARTITIONS) for _ in range(3)]
    made = Group(broker_traits, unique_name("group"), *topics, tmp_path)
    yield made
    for worker in made.workers:
        worker.close()


@pytest.fixture
def fill_keyed(producer: Any) -> Any:
    """Write an event per number, its key derived from it."""

    async def write(topic: str, partition: int, numbers: range) -> None:
        waiting = [await producer.send(topic, b"event", key=b"run-%d" % (n % KEYS), partition=partition) for n in numbers]
        await asyncio.gather(*waiting)

    return write


@pytest.fixture
def check(read_compacted: Any) -> Any:
    """Assert that every event has its decision, and every state counts every event once."""

    async def look(group: Group) -> None:
        for partition in range(PARTITIONS):
            decisions = {record.value.decode() for record in await read_compacted(group.decisions, partition)}
            assert decisions == {
                f"{topic}/{partition}/{offset}" for topic, sent in group.sent.items() for offset in range(sent[partition])
            }
            newest: dict[bytes, tuple[int, ...]] = {}
            for record in await read_compacted(f"{group.name}-counts-changelog", partition):
                state = STATE.unpack(record.value)
                newest[record.key] = max(newest.get(record.key, state), state, key=lambda found: sum(found[1:]))
            expected = {
                b"run-%d" % key: sum(len(range(key, sent[partition], KEYS)) for sent in group.sent.values())
                for key in range(KEYS)
            }
            assert {key: state[0] for key, state in newest.items()} == expected

    return look


@pytest.fixture
def read_compacted(broker: str) -> Any:
    """Read one partition from its start to its end, whatever its length."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read(topic: str, partition: int) -> list[Any]:
        async with AIOKafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest") as consumer:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            found: list[Any] = []
            # the high watermark of a fetch, because Tansu's ListOffsets answer is not the end
            while not found or found[-1].offset + 1 < (consumer.highwater(place) or 0):
                found += (await consumer.getmany(place, timeout_ms=1000)).get(place, [])
            return found

    return read


def partitions_of(assignment: list[tuple[str, int]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for topic, partition in assignment:
        found.setdefault(topic, set()).add(partition)
    return found


async def test_both_inputs_and_the_changelog_stay_together(group: Group, fill_keyed: Any, committed: Any, check: Any) -> None:
    """Each worker gets the same partition numbers of all three, together they get all."""
    await group.send(fill_keyed, 200)
    one = group.start()
    await group.until(lambda: bool(one.assignments))
    two = group.start()
    await group.until(lambda: bool(two.assignments) and len(one.assignments) >= 2)
    await group.send(fill_keyed, 200)
    shares = [partitions_of(worker.assignments[-1]) for worker in (one, two)]
    topics = {group.calls, group.compactions, f"{group.name}-counts-changelog"}
    for share in shares:
        assert set(share) == topics
        assert len({frozenset(numbers) for numbers in share.values()}) == 1
        assert len(share[group.calls]) == PARTITIONS // 2
    assert shares[0][group.calls] | shares[1][group.calls] == set(range(PARTITIONS))
    await group.until_committed(committed)
    assert one.end_by(signal.SIGTERM) == 0
    await check(group)


@pytest.mark.parametrize("store", ["memory://", "rocksdb://"])
async def test_kills_lose_nothing(store: str, group: Group, fill_keyed: Any, committed: Any, check: Any) -> None:
    """Two workers, killed in turn while events come in, and replaced."""
    await group.send(fill_keyed, 500)
    one, two = group.start(store=store, delay=0.01), group.start(store=store, delay=0.01)
    await group.until(lambda: bool(one.assignments) and bool(two.assignments))
    await group.send(fill_keyed, 500)
    one.end_by(signal.SIGKILL)
    three = group.start(store=store)
    await group.until(lambda: bool(three.assignments))
    two.end_by(signal.SIGKILL)
    await group.send(fill_keyed, 500)
    await group.until_committed(committed)
    await check(group)


async def test_a_paused_worker_drops_its_batches_and_rejoins(group: Group, fill_keyed: Any, committed: Any, check: Any) -> None:
    """Paused past its session, with work in hand that another worker does meanwhile."""
    await group.send(fill_keyed, 500)
    one = group.start(delay=0.02)
    await group.until(lambda: bool(one.assignments))
    two = group.start(delay=0.02)
    await group.until(lambda: bool(two.assignments))
    await group.send(fill_keyed, 500)
    one.send(signal.SIGSTOP)
    await group.until(lambda: len(partitions_of(two.assignments[-1]).get(group.calls, ())) == PARTITIONS)
    before = len(one.assignments)
    await group.send(fill_keyed, 200)
    one.send(signal.SIGCONT)
    await group.until(lambda: len(one.assignments) > before)
    await group.until_committed(committed)
    assert one.process.poll() is None, "the paused worker stays"
    assert one.end_by(signal.SIGTERM) == 0
    await group.send(fill_keyed, 100)
    await group.until_committed(committed)
    await check(group)


async def test_a_graceful_handover_repeats_nothing(
    group: Group, fill_keyed: Any, committed: Any, check: Any, read_compacted: Any
) -> None:
    """A worker that is told to stop writes and commits first: its successor decides nothing a second time."""
    await group.send(fill_keyed, 300)
    one = group.start(delay=0.01)
    await group.until(lambda: bool(one.assignments))
    assert one.end_by(signal.SIGTERM) == 0
    group.start()
    await group.until_committed(committed)
    for partition in range(PARTITIONS):
        assert len(await read_compacted(group.decisions, partition)) == 600
    await check(group)
