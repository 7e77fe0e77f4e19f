"""The replayer: the engine's decisions, in any order of the topics, under policies that change."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Origin
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from streams.audit import Era, Input, Recomputed, Replayer, timeline
from streams.audit.input_order import LEAD_MS, in_order
from streams.detection.engine import ENGINE_VERSION, apply
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState
from tests.facts import changed

HOME = RunPartition("agent.tool-calls.v1", 0)
DAY = 86_400_000


def policy(**loop_detection: Any) -> PolicyDocument:
    return PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True, **loop_detection}}})


LOOSE, STRICT = policy(), policy(warningThreshold=3, criticalThreshold=5)


class Partition:
    """Makes the inputs of one partition; sequences, times and offsets count up over all runs."""

    def __init__(self) -> None:
        self.calls: list[Input] = []
        self.compactions: list[Input] = []
        self.sequence = 0
        self.time = 1_800_000_000_000

    def add(self, run: str, kind: Any, **facts: Any) -> None:
        self.sequence += 1
        self.time += 1
        into = self.compactions if kind == "compaction" else self.calls
        made = Facts(kind, HOME, offset=len(into), time=self.time, sequence=self.sequence, **facts)
        into.append(Input(run, made, self.time))

    def loop(self, run: str, calls: int, tool: str = "read", **facts: Any) -> None:
        for _ in range(calls):
            self.add(run, "started", key=(tool, bytes(16)), **facts)
            self.add(run, "finished", key=(tool, bytes(16)), outcome=b"same", **facts)

    def replay(self, eras: Any, **given: Any) -> list[Recomputed]:
        return list(Replayer(eras, partition=HOME, **given).replay(self.calls, self.compactions))


@pytest.fixture
def partition() -> Partition:
    return Partition()


@pytest.fixture
def era() -> Callable[..., Era]:
    def make(policy: PolicyDocument | None, calls: int, compactions: int = 0, **more: Any) -> Era:
        return Era(policy=policy, tool_calls_offset=calls, compactions_offset=compactions, **more)

    return make


def ids(found: list[Recomputed], *standings: str) -> list[str]:
    return [one.decision.decision_id for one in found if one.standing in (standings or ("due",))]


def test_under_one_policy_it_gives_what_the_engine_gives(partition: Partition) -> None:
    partition.loop("a", 12)
    partition.loop("b", 25)
    partition.add("a", "ended")
    partition.loop("a", 12)
    states: dict[str, RunState] = {}
    expected = [
        decision.decision_id
        for event in partition.calls
        for decision in apply(states.setdefault(event.run_id, RunState(event.run_id)), event.facts, LOOSE).decisions
    ]
    assert ids(partition.replay(LOOSE)) == expected
    assert len(expected) > 10


def test_what_stands_at_the_end_may_be_released_later(partition: Partition) -> None:
    partition.loop("a", 25)
    (last,) = [one for one in partition.replay(LOOSE) if one.standing == "maybe"]
    assert (last.decision.action, last.cause) == ("release", None)


def test_a_run_is_judged_again_before_its_next_event_under_another_policy(partition: Partition, era: Callable[..., Era]) -> None:
    partition.loop("a", 8)
    switch = len(partition.calls)
    partition.loop("a", 1)
    found = partition.replay([era(LOOSE, 0), era(STRICT, switch)])
    first = next(one for one in found if one.standing == "due")
    assert (first.decision.action, first.decision.count, first.decision.policy_version) == ("block", 8, STRICT.version)
    assert first.decision.as_of.offset == switch - 1


def test_an_idle_run_is_judged_again_soon_and_under_an_earlier_policy_it_was(
    partition: Partition, era: Callable[..., Era]
) -> None:
    partition.loop("a", 8)
    end = len(partition.calls)
    strict, stricter = era(STRICT, end), era(policy(warningThreshold=2, criticalThreshold=4, unknownToolThreshold=3), end)
    found = partition.replay([era(LOOSE, 0), strict], was_published=lambda decision_id: False)
    assert [one.standing for one in found if one.decision.action == "block"] == ["soon"]
    found = partition.replay([era(LOOSE, 0), strict, era(LOOSE, end)], was_published=lambda decision_id: False)
    assert [(one.standing, one.decision.action) for one in found] == [("due", "block"), ("soon", "release"), ("maybe", "release")]
    assert stricter.version not in {one.decision.policy_version for one in found}


def test_events_below_the_marker_of_both_topics_come_before_it(partition: Partition, era: Callable[..., Era]) -> None:
    """A compaction is read although the time of its record is later than that of the first call under the new policy."""
    partition.loop("a", 1)
    partition.add("a", "compaction", arms=True)
    switch = len(partition.calls)
    partition.loop("a", 3)
    late = partition.compactions[0]
    partition.compactions[0] = Input(late.run_id, late.facts, late.timestamp + DAY)
    order = list(in_order(partition.calls, partition.compactions, [era(LOOSE, 0), era(STRICT, switch, 1)]))
    assert [event.facts.kind == "compaction" for event in order].index(True) == switch
    early = list(in_order(partition.calls, partition.compactions, [era(LOOSE, 0)]))
    assert early[-1].facts.kind == "compaction"


def test_a_compaction_goes_a_little_before_the_calls_of_its_time_unless_it_has_no_sequence(partition: Partition) -> None:
    partition.loop("a", 2)
    partition.add("a", "compaction", arms=True)
    assert next(event.facts.kind for event in in_order(partition.calls, partition.compactions, [])) == "compaction"
    first = partition.compactions[0]
    bare = [Input(first.run_id, changed(first.facts, sequence=None), first.timestamp)]
    assert [event.facts.kind for event in in_order(partition.calls, bare, [])][-1] == "compaction"
    assert LEAD_MS > 0


def test_a_run_first_seen_in_a_range_may_have_begun_before_it(partition: Partition) -> None:
    partition.loop("a", 25)
    partition.add("a", "ended")
    partition.loop("a", 25)
    whole = partition.replay(LOOSE)
    assert {one.doubt for one in whole} == {None}
    ended = next(event.facts.offset for event in partition.calls if event.facts.kind == "ended")
    part = list(Replayer(LOOSE, partition=HOME, start=10).replay(partition.calls[10:]))
    doubts = [(one.doubt, one.decision.since.offset > ended) for one in part]
    assert set(doubts) == {("beginning", False), (None, True)}


def test_an_unknown_policy_and_another_engine_leave_doubts_until_the_run_begins_again(
    partition: Partition, era: Callable[..., Era]
) -> None:
    partition.loop("a", 15)
    switch = len(partition.calls)
    partition.loop("a", 10)
    partition.loop("b", 25)
    found = partition.replay([era(None, 0), era(LOOSE, switch)])
    assert {(one.decision.run_id, one.doubt) for one in found} == {("a", "policy"), ("b", None)}
    found = partition.replay([era(LOOSE, 0, engine_version="0"), era(LOOSE, switch, engine_version=ENGINE_VERSION)])
    assert {(one.decision.run_id, one.doubt) for one in found} == {("a", "engine"), ("b", None)}


def test_a_run_that_was_idle_for_too_long_begins_afresh(partition: Partition) -> None:
    partition.loop("a", 15)
    partition.time += 2 * DAY
    switch = len(partition.calls)
    partition.loop("a", 15)
    sinces = {one.decision.since.offset for one in partition.replay(LOOSE, run_ttl_ms=DAY)}
    assert sinces == {0, switch}


def test_decisions_tell_that_an_idle_run_was_forgotten(partition: Partition) -> None:
    """Old events are imported: by their own times the run was never idle, by the partition's clock it was."""
    partition.loop("a", 15)
    old = partition.time
    partition.time += 5 * DAY
    partition.loop("b", 1)
    switch = len(partition.calls)
    partition.loop("a", 15)
    partition.calls[switch:] = [
        Input(event.run_id, changed(event.facts, time=old + number), event.timestamp)
        for number, event in enumerate(partition.calls[switch:], 1)
    ]
    assert {one.decision.since.offset for one in partition.replay(LOOSE, run_ttl_ms=DAY)} == {0}
    found = partition.replay(LOOSE, run_ttl_ms=DAY, beginnings=[0, switch])
    assert {one.decision.since.offset for one in found} == {0, switch}


def test_memory_is_bounded_by_live_runs(partition: Partition) -> None:
    replayer = Replayer(LOOSE, partition=HOME)
    most = 0
    for number in range(15_000):
        partition.calls.clear()
        partition.loop(f"run-{number}", 1)
        partition.add(f"run-{number}", "ended")
        for offset, event in enumerate(partition.calls, start=3 * number):
            facts = changed(event.facts, offset=offset)
            replayer.feed(Input(event.run_id, facts, event.timestamp))
        most = max(most, replayer.live_runs)
    assert most < 4_000  # the stubs of runs that ended within the last 10,000 events


@given(st.data())
def test_any_two_orders_of_the_topics_give_the_same_unless_withdrawn(data: st.DataObject) -> None:
    partition = Partition()
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            partition.add("a", "compaction", arms=True)
        partition.loop("a", data.draw(st.integers(1, 2)), data.draw(st.sampled_from(["read", "exec"])))
    shift = data.draw(st.sampled_from([-DAY, 3, DAY]))
    moved = [Input(event.run_id, event.facts, event.timestamp + shift) for event in partition.compactions]
    one = Replayer(LOOSE, partition=HOME).replay(partition.calls, partition.compactions)
    other = Replayer(LOOSE, partition=HOME).replay(partition.calls, moved)
    assert _kept(list(one)) == _kept(list(other))


def _kept(found: list[Recomputed]) -> set[str]:
    """The decisions without the aborts that were withdrawn and what withdrew them."""
    kept: dict[str, str] = {}
    open_aborts: list[str] = []
    for one in found:
        decision = one.decision
        if one.standing != "due":
            continue
        if decision.action == "abort":
            open_aborts.append(decision.decision_id)
        if one.withdrawal:
            kept.pop(open_aborts.pop())
            continue
        kept[decision.decision_id] = decision.action
    return set(kept)


def test_copies_and_late_markers_do_not_make_eras() -> None:
    def marker(number: int, document: PolicyDocument, calls: int, compactions: int) -> tuple[Origin, PolicyApplied]:
        origin = Origin(topic="d", partition=0, offset=number)
        return origin, PolicyApplied(
            policy_version=document.version,
            policy=document.to_mapping(),
            partition=0,
            tool_calls_offset=calls,
            compactions_offset=compactions,
            engine_version=ENGINE_VERSION,
        )

    eras = timeline([marker(0, LOOSE, 0, 0), marker(1, LOOSE, 0, 0), marker(5, STRICT, 10, 2), marker(6, LOOSE, 0, 0)])
    assert [(era.version, era.tool_calls_offset, era.compactions_offset) for era in eras] == [
        (LOOSE.version, 0, 0),
        (STRICT.version, 10, 2),
    ]
    eras = timeline([marker(5, STRICT, 10, 2)])
    assert [(era.version, era.tool_calls_offset) for era in eras] == [(None, 0), (STRICT.version, 10)]
    assert timeline([], before=LOOSE)[0].version == LOOSE.version


def test_no_policy_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one policy"):
        Replayer([], partition=HOME)
