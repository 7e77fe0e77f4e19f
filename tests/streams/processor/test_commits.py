"""When processed batches are committed."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.topics import Topics
from streams.processor import commits
from streams.processor.commits import EVENTS_WORTH_A_COMMIT, INTERVALS_AT_MOST, RUNS_AT_REST, RUNS_PER_WRITE, Commits
from streams.processor.owned_runs import StateSlice
from streams.transport import StaleBatch

INTERVAL = 0.5


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Runs:
    """Notes which slices are written; `left` is how many runs the round still has."""

    def __init__(self) -> None:
        self.touched = 0
        self.left = 0
        self.slices: list[int] = []

    @property
    def unwritten(self) -> bool:
        return bool(self.touched or self.left)

    def begin_round(self) -> int:
        self.left, self.touched = self.left + self.touched, 0
        return self.left

    def take_slice(self, limit: int, *, is_committed: Any) -> StateSlice:
        self.slices.append(limit)
        self.left -= min(limit, self.left)
        return StateSlice({0: {b"run": b"state"}}, is_last=not self.left)

    async def put(self, states: StateSlice) -> None:
        return None


class Scene:
    """A worker that is given batches; `answer` holds back the answer to a commit of offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr(commits, "time", self.clock)
        self.runs = Runs()
        self.done: list[str] = []
        self.committed = 0
        self.answer = asyncio.Event()
        self.answer.set()
        self.stale: str | None = None
        lease = SimpleNamespace(held=True)
        app = SimpleNamespace(consumer=SimpleNamespace(lease=lease, commit=self._commit))
        runs: Any = self.runs
        self.commits = Commits(app=app, runs=runs, topics=Topics(), interval=INTERVAL)

    async def _commit(self) -> None:
        await self.answer.wait()
        self.committed += 1

    def add(self, name: str, *, events: int, partition: int = 0) -> None:
        def ensure_owned() -> None:
            if self.stale == name:
                raise StaleBatch(name)

        batch: Any = SimpleNamespace(
            topic="calls", partition=partition, ensure_owned=ensure_owned, done=lambda: self.done.append(name)
        )
        self.runs.touched += events
        self.commits.add(batch, events)

    async def passes(self, seconds: float) -> bool:
        self.clock.now += seconds
        states = self.commits.next_slice()
        more = states is not None and await self.commits.write(states)
        await asyncio.sleep(0)
        return more


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_many_events_are_committed_after_the_interval(scene: Scene) -> None:
    scene.add("a", events=EVENTS_WORTH_A_COMMIT)
    assert not await scene.passes(INTERVAL * 0.9)
    assert scene.done == []
    scene.add("b", events=1)
    scene.runs.touched = RUNS_PER_WRITE
    assert not await scene.passes(INTERVAL * 0.2)
    assert (scene.done, scene.committed) == (["a", "b"], 1)


async def test_few_events_wait_for_more(scene: Scene) -> None:
    for number in range(INTERVALS_AT_MOST * 2 - 1):
        scene.add(str(number), events=1)
        await scene.passes(INTERVAL / 2)
    assert scene.done == []
    scene.add("last", events=1)
    await scene.passes(INTERVAL / 2)
    assert scene.done[-1] == "last"
    assert scene.committed == 1


async def test_few_events_are_committed_when_no_more_come(scene: Scene) -> None:
    scene.add("a", events=1)
    await scene.passes(INTERVAL)
    assert (scene.done, scene.committed) == (["a"], 1)


async def test_a_commit_covers_what_came_before_it(scene: Scene) -> None:
    scene.add("a", events=EVENTS_WORTH_A_COMMIT)
    scene.clock.now += INTERVAL * 0.9
    scene.add("b", events=1)
    scene.runs.touched = 3 * EVENTS_WORTH_A_COMMIT
    assert await scene.passes(INTERVAL * 0.2)
    scene.add("c", events=1)
    while await scene.passes(0.001):
        continue
    assert scene.done == ["a", "b"]
    assert scene.commits.waiting


@pytest.mark.parametrize(("runs", "per_event"), [(50_000, 2), (20_000, 2), (5_000, 0.5)])
async def test_slices_grow_with_the_batches(scene: Scene, runs: int, per_event: float) -> None:
    """So that a commit does not fall behind the events, and is no more work at a time than it has to be."""
    scene.add("a", events=20_000)
    scene.clock.now += INTERVAL
    scene.add("b", events=0)
    scene.runs.touched = runs
    assert await scene.passes(0)
    for events in (1, 2_000):
        scene.add("c", events=events)
        assert await scene.passes(0.001)
    assert scene.runs.slices == [RUNS_PER_WRITE, RUNS_PER_WRITE, 2_000 * per_event]


@pytest.mark.parametrize("runs_per_event", [0.01, 1.0])
async def test_a_commit_does_not_grow_while_events_come(scene: Scene, runs_per_event: float) -> None:
    """Also when each of them is another run's, and the next commit begins an interval after this one ended."""
    events_per_round, seconds = 400, 0.01
    sizes = []
    for number in range(1_500):
        scene.add(str(number), events=events_per_round)
        scene.runs.touched -= round(events_per_round * (1 - runs_per_event))
        before = scene.committed
        await scene.passes(seconds)
        if scene.committed > before:
            sizes.append(len(scene.done))
    covered = [after - before for before, after in itertools.pairwise(sizes)]
    assert len(covered) >= 10
    assert max(covered) <= 2.2 * INTERVAL / seconds


async def test_slices_are_large_at_rest(scene: Scene) -> None:
    scene.add("a", events=3 * RUNS_AT_REST)
    assert await scene.passes(INTERVAL)
    assert await scene.passes(0)
    assert not await scene.passes(0)
    assert scene.runs.slices == [RUNS_AT_REST] * 3


async def test_no_commit_begins_while_the_offsets_of_the_one_before_are_not_committed(scene: Scene) -> None:
    """Batches go on meanwhile."""
    scene.answer.clear()
    scene.add("a", events=1)
    await scene.passes(INTERVAL)
    assert (scene.done, scene.committed) == (["a"], 0)
    scene.add("b", events=1)
    assert not await scene.passes(INTERVAL * INTERVALS_AT_MOST)
    assert scene.done == ["a"]
    scene.answer.set()
    await asyncio.sleep(0)
    await scene.passes(INTERVAL * INTERVALS_AT_MOST)
    assert (scene.done, scene.committed) == (["a", "b"], 2)


async def test_what_fails_in_the_background_is_raised_by_the_next(scene: Scene) -> None:
    async def fail() -> None:
        raise RuntimeError("no broker")

    scene.commits._app.consumer.commit = fail
    scene.add("a", events=1)
    await scene.passes(INTERVAL)
    with pytest.raises(RuntimeError, match="no broker"):
        await scene.passes(INTERVAL)


@pytest.mark.parametrize("stale", ["a", "c"])
async def test_the_oldest_batch_of_a_partition_speaks_for_it(scene: Scene, stale: str) -> None:
    scene.add("a", events=1)
    scene.add("b", events=1)
    scene.add("c", events=1, partition=1)
    scene.commits.ensure_owned()
    scene.stale = stale
    with pytest.raises(StaleBatch):
        scene.commits.ensure_owned()
    with pytest.raises(StaleBatch):
        await scene.passes(INTERVAL)
    assert scene.done == []


async def test_the_oldest_of_the_next_commit_is_asked_after_this_one(scene: Scene) -> None:
    scene.add("a", events=RUNS_AT_REST + 1)
    assert await scene.passes(INTERVAL)
    scene.add("b", events=1)
    while await scene.passes(0):
        continue
    assert scene.done == ["a"]
    scene.stale = "b"
    with pytest.raises(StaleBatch):
        scene.commits.ensure_owned()
