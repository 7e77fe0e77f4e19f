"""Runs that were idle for longer than their time to live."""

from collections.abc import Callable
from typing import Any

from schemas.policy import PolicyDocument
from streams.detection.engine import apply, expire
from streams.detection.facts import Facts
from streams.detection.run_state import RunState
from tests.facts import changed
from tests.streams.detection.conftest import PARTITION, Run

TTL_MS = 60_000


def later(events: list[Facts], milliseconds: int) -> list[Facts]:
    return [changed(event, time=event.time + milliseconds) for event in events]


def loop(run: Run, calls: int) -> list[Facts]:
    start = len(run.events)
    for _ in range(calls):
        run.call()
    return run.events[start:]


def decide(events: list[Facts], policy: PolicyDocument, state: RunState) -> list[tuple[str, int]]:
    decisions = [decision for event in events for decision in apply(state, event, policy, run_ttl_ms=TTL_MS).decisions]
    return [(decision.action, decision.count) for decision in decisions]


def test_a_run_that_went_on_after_its_time_to_live_counts_from_the_start(run: Run, policy_of: Callable[..., Any]) -> None:
    state = RunState("r1")
    before = decide(loop(run, 20), policy_of(), state)
    assert before[-1] == ("block", 20)
    after = decide(later(loop(run, 20), TTL_MS * 2), policy_of(), state)
    assert after[0] == ("release", 20), "what stood goes first"
    assert after[1:] == before


def test_a_sweep_before_the_next_event_changes_nothing_about_what_is_decided(run: Run, policy_of: Callable[..., Any]) -> None:
    first, second = loop(run, 20), later(loop(run, 20), TTL_MS * 2)
    swept, unswept = RunState("r1"), RunState("r1")
    told = [decide(first, policy_of(), state) for state in (swept, unswept)]
    released = [(decision.action, decision.count) for decision in expire(swept, PARTITION, policy_of())]
    assert told[0] == told[1]
    assert released + decide(second, policy_of(), swept) == decide(second, policy_of(), unswept)


def test_a_compaction_that_waits_for_the_next_calls_outlives_the_idle_time(run: Run, policy_of: Callable[..., Any]) -> None:
    state = RunState("r1")
    decide(loop(run, 3), policy_of(), state)
    compaction = run.compaction()
    rest = loop(run, 3)
    actions = decide(later([compaction, *rest], TTL_MS * 2), policy_of(), state)
    assert ("abort", 3) in actions


def test_events_with_earlier_times_never_count_as_idle(run: Run, policy_of: Callable[..., Any]) -> None:
    state = RunState("r1")
    events = later(loop(run, 10), TTL_MS * 5) + loop(run, 10)
    assert decide(events, policy_of(), state)[-1] == ("block", 20)
