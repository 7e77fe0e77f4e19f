"""What a gate answers from the decisions read so far."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Decision
from schemas.fingerprints import args_hash
from schemas.policy import PolicyDocument
from streams.detection.engine import apply, judge_again
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState
from streams.gateway.verdict_map import Standing, VerdictMap
from tests.streams.gateway.lab import decision

HASH = args_hash(None)


def answer(known: VerdictMap) -> Standing | None:
    return known.lookup("r", "read", HASH)


def test_the_widest_verdict_answers() -> None:
    known = VerdictMap()
    for offset, scope in enumerate(("call", "tool", "run"), start=1):
        known.fold(decision(scope=scope, offset=offset))
        found = answer(known)
        assert found is not None
        assert found.target == {"call": ("read", HASH), "tool": ("read", None), "run": (None, None)}[scope]
    assert known.lookup("other", "read", HASH) is None


def test_a_release_takes_the_verdict_away() -> None:
    known = VerdictMap()
    known.fold(decision())
    known.fold(decision("release", offset=2))
    assert answer(known) is None


def test_a_warning_is_given_once_also_when_copies_of_it_come() -> None:
    known = VerdictMap()
    warning, used = decision("warn", offset=1), decision("release", offset=2)
    known.fold(warning)
    standing = answer(known)
    assert standing is not None
    known.take_warning("r", standing)
    assert answer(known) is None
    known.take_warning("r", standing)
    for copy in (warning, used, warning):
        known.fold(copy)
        assert answer(known) is None
    known.fold(decision("warn", offset=11))
    assert answer(known) is not None, "the next warning is another"


def test_a_copy_of_an_earlier_decision_changes_nothing_even_for_a_moment() -> None:
    known = VerdictMap()
    course = [decision(offset=1), decision("release", offset=2), decision(offset=3, count=21)]
    for item in course:
        assert known.fold(item)
    for item in course[:2]:
        assert not known.fold(item)
        assert answer(known) is not None


def test_a_policy_that_comes_back_makes_the_same_decision_again_and_means_it() -> None:
    known = VerdictMap()
    for item in (decision(offset=5, number=1), decision("release", offset=5, number=2), decision(offset=5, number=1)):
        known.fold(item)
    assert answer(known) is not None


def test_room_is_made_by_runs_without_verdicts_first() -> None:
    evicted: list[str] = []
    known = VerdictMap(max_runs=8, on_evicted=evicted.append)
    for number in range(6):
        known.fold(decision(run_id=f"standing {number}"))
    for number in range(20):
        known.fold(decision(run_id=f"settled {number}"))
        known.fold(decision("release", run_id=f"settled {number}", offset=2))
    assert len(known.runs) <= 8
    assert evicted == []
    assert all(known.lookup(f"standing {number}", "read", HASH) for number in range(6))
    for number in range(20):
        known.fold(decision(run_id=f"more {number}"))
    assert len(known.runs) <= 8
    assert evicted[:6] == [f"standing {number}" for number in range(6)]
    assert known.lookup("more 19", "read", HASH) is not None


def test_idle_runs_are_forgotten_and_those_still_spoken_of_are_not() -> None:
    known = VerdictMap()
    for run_id, heard_at in (("a", 10.0), ("b", 11.0), ("c", 12.0)):
        known.fold(decision(run_id=run_id), heard_at=heard_at)
    known.heard("a", 20.0)
    known.forget_idle(12.0)
    assert list(known.runs) == ["c", "a"]


def test_a_run_and_a_partition_can_be_forgotten() -> None:
    known = VerdictMap()
    for number, run_id in enumerate("abc"):
        known.fold(decision(run_id=run_id, partition=number % 2))
    known.forget_partition(0)
    assert list(known.runs) == ["b"]
    known.forget("b")
    known.forget("b")
    assert list(known.runs) == []


# -- laws over the decisions of made-up runs -------------------------------------------------------------------------------------

POLICIES = [
    PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True, "warningThreshold": w, "criticalThreshold": c}}})
    for w, c in ((2, 4), (3, 9), (10, 20))
]
HOME = RunPartition("agent.tool-calls.v1", 0)
STEPS = st.lists(st.tuples(st.sampled_from("abp"), st.integers(0, 1), st.integers(0, 1)), min_size=5, max_size=60)


def decisions_of(steps: Iterable[tuple[str, int, int]]) -> list[Decision]:
    """Play calls of two signatures and changes of policy; return what is decided, in order."""
    state, policy, found = RunState("r"), POLICIES[0], []
    for number, (what, tool, outcome) in enumerate(steps):
        if what == "p":
            policy = POLICIES[tool + outcome]
            found += [made.as_read() for made in judge_again(state, HOME, policy)]
            continue
        facts = Facts(
            kind="started" if what == "a" else "finished",
            partition=HOME,
            offset=number,
            time=number,
            sequence=number + 1,
            key=(f"tool{tool}", b"\0" * 16),
            outcome=bytes([outcome] * 8) if what == "b" else None,
        )
        found += [made.as_read() for made in apply(state, facts, policy).decisions]
    return found


def state_of(known: VerdictMap) -> dict[Any, str]:
    run = known.runs.get("r")
    return {} if run is None else {target: standing.decision_id for target, standing in run.standing.items()}


@given(STEPS, st.integers(0, 2**32))
def test_copies_after_crashes_end_at_the_same_answers(steps: list[tuple[str, int, int]], seed: int) -> None:
    found = decisions_of(steps)
    plain = VerdictMap()
    for item in found:
        plain.fold(item)
    rng = random.Random(seed)
    crashed = VerdictMap()
    number = 0
    while number < len(found):
        crashed.fold(found[number])
        number += 1
        if rng.random() < 0.1:  # a worker died: another repeats what was decided since the last commit
            number -= rng.randint(1, min(number, 10))
    assert state_of(crashed) == state_of(plain)


@given(STEPS, st.integers(0, 2**32))
def test_no_warning_is_given_twice_whatever_is_repeated(steps: list[tuple[str, int, int]], seed: int) -> None:
    found = decisions_of(steps)
    rng = random.Random(seed)
    known, given_ids, number = VerdictMap(), [], 0
    while number < len(found):
        known.fold(found[number])
        number += 1
        run = known.runs.get("r")
        for standing in list(run.standing.values()) if run is not None else ():
            if standing.action == "warn" and rng.random() < 0.7:
                known.take_warning("r", standing)
                given_ids.append(standing.decision_id)
        if rng.random() < 0.1:
            number -= rng.randint(1, min(number, 10))
    assert len(given_ids) == len(set(given_ids))


@pytest.mark.parametrize("make", [lambda: VerdictMap(), lambda: VerdictMap(max_runs=100)], ids=["unbounded", "bounded"])
def test_memory_of_a_run_is_bounded(make: Callable[[], VerdictMap]) -> None:
    known = make()
    for offset in range(1, 5000):
        known.fold(decision("warn", offset=offset))
        standing = answer(known)
        assert standing is not None
        known.take_warning("r", standing)
    run = known.runs["r"]
    assert len(run.seen) <= 256
    assert len(run.given or {}) <= 256
