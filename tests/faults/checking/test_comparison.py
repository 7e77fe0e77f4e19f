"""The checks find what is missing, too much or wrong: a suite that cannot fail shows nothing."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from streams.detection import state_codec
from tests.faults.checking import Outcome, compare
from tests.faults.making.brokers import running
from tests.faults.making.plan import FaultPlan
from tests.faults.scene import PARTITIONS, Scene
from tests.faults.workload import make_workload


def stored(run_id: str, sequence: int) -> bytes:
    from streams.detection.run_state import RunState

    state = RunState(run_id)
    state.tool_sequence = sequence
    return state_codec.encode(state)


@pytest.fixture
def expected() -> Outcome:
    """Two of everything."""
    return Outcome(
        decisions={"a": {"count": 1}, "b": {"count": 2}},
        states={(0, "run"): stored("run", 1), (1, "other"): stored("other", 1)},
        dead_letters={("t", 0, 1): (b"k", b"v", ()), ("t", 0, 2): (None, b"w", (("h", b"x"),))},
        offsets={("t", 0): 10, ("t", 1): 0},
        standing={("run", "read", None): ("block", "d", 3)},
        written=2,
    )


def test_the_same_outcome_has_no_differences(expected: Outcome) -> None:
    found = compare(expected, deepcopy(expected))
    assert found.none
    assert found.copies == 0


CHANGES: list[tuple[str, Callable[[Outcome], object], tuple[int, int, int]]] = [
    ("a decision is missing", lambda found: found.decisions.pop("a"), (1, 0, 0)),
    ("a decision too many", lambda found: found.decisions.update(c={}), (0, 1, 0)),
    ("a decision says something else", lambda found: found.decisions["a"].update(count=9), (0, 0, 1)),
    ("a state is missing", lambda found: found.states.pop((0, "run")), (1, 0, 0)),
    ("a state too many", lambda found: found.states.update({(0, "new"): stored("new", 1)}), (0, 1, 0)),
    ("a state is another", lambda found: found.states.update({(0, "run"): stored("run", 2)}), (0, 0, 1)),
    ("a state in another partition", lambda found: found.states.update({(1, "run"): found.states.pop((0, "run"))}), (1, 1, 0)),
    ("a run has ended", lambda found: found.ended.add((0, "run")), (0, 1, 0)),
    ("a dead letter is missing", lambda found: found.dead_letters.pop(("t", 0, 1)), (1, 0, 0)),
    ("a dead letter has other bytes", lambda found: found.dead_letters.update({("t", 0, 1): (b"k", b"V", ())}), (0, 0, 1)),
    ("a dead letter has lost a header", lambda found: found.dead_letters.update({("t", 0, 2): (None, b"w", ())}), (0, 0, 1)),
    ("an offset is not committed", lambda found: found.offsets.update({("t", 0): 9}), (1, 0, 0)),
    ("an offset beyond the end", lambda found: found.offsets.update({("t", 1): 1}), (0, 1, 0)),
    ("a verdict does not stand", lambda found: found.standing.clear(), (1, 0, 0)),
    ("two payloads of one id", lambda found: found.contradictions.append("b"), (0, 0, 1)),
]


@pytest.mark.parametrize(("change", "numbers"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES])
def test_every_difference_counts(expected: Outcome, change: Callable[[Outcome], object], numbers: tuple[int, int, int]) -> None:
    observed = deepcopy(expected)
    change(observed)
    found = compare(expected, observed)
    assert (found.missing, found.extra, found.wrong) == numbers
    assert found.examples


def test_a_copy_is_no_difference(expected: Outcome) -> None:
    observed = deepcopy(expected)
    observed.written += 3
    found = compare(expected, observed)
    assert found.none
    assert found.copies == 3


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A group on an embedded broker."""
    with running("embedded") as broker:
        yield Scene(broker, tmp_path)


@pytest.mark.broker
@pytest.mark.parametrize("point", ["before-decisions", "before-states", "before-dead-letters"])
async def test_a_worker_that_loses_a_write_is_found_out(scene: Scene, point: str) -> None:
    """It believes that the broker has what was never sent."""
    async with scene:
        scene.start_worker(FaultPlan(point=point, action="lose", passing=2))
        await scene.publish(make_workload(seed=1, runs=20, calls=20, partitions=PARTITIONS))
        await scene.until_committed()
        assert not (await scene.verdict()).none
