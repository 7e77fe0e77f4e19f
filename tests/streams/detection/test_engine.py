"""What decisions an event brings."""

from schemas import cloudevents
from schemas.decisions import Decision
from schemas.policy import PolicyDocument
from streams.detection.engine import apply, judge_again
from streams.detection.run_state import RunState
from tests.facts import changed


def said(decisions):
    return [(d.action, d.detector, d.count, d.late, d.reason) for d in decisions]


def test_a_repeat_is_warned_about_before_the_eleventh_call_and_blocked_before_the_twenty_first(run, played, policy_of):
    for _ in range(20):
        run.call()
    assert said(played(run.events, policy_of())) == [
        ("warn", "generic_repeat", 10, False, None),
        ("release", "generic_repeat", 10, False, "used"),
        ("warn", "generic_repeat", 20, False, None),
        ("block", "generic_repeat", 20, False, None),
    ]


def test_a_blocked_call_that_starts_all_the_same_is_blocked_again_as_late(run, played, policy_of):
    for _ in range(20):
        run.call()
    run.start()
    last = played(run.events, policy_of())[-1]
    assert (last.action, last.late, last.count, last.as_of.sequence) == ("block", True, 20, 41)


def test_a_refused_call_changes_nothing(run, policy_of):
    state = RunState("r1")
    run.blocked()
    applied = apply(state, run.events[0], policy_of())
    assert applied.effect == "ignored"
    assert not state.history.calls


def test_a_block_is_released_when_its_calls_leave_the_history(run, played, policy_of):
    for _ in range(3):
        run.call()
    for other in range(1, 5):
        run.call("write", other)
    decisions = played(
        run.events, policy_of(warningThreshold=2, criticalThreshold=3, historySize=4, detectors={"pingPong": False})
    )
    assert said(decisions) == [("block", "generic_repeat", 3, False, None), ("release", "generic_repeat", 3, False, "changed")]


def test_an_unknown_tool_is_blocked_whatever_its_arguments_and_hides_verdicts_on_single_calls(run, played, policy_of):
    for _ in range(10):
        run.call("nope", 1, missing="nope")
    decisions = played(run.events, policy_of())
    assert said(decisions) == [
        ("warn", "generic_repeat", 10, False, None),
        ("block", "unknown_tool_repeat", 10, False, None),
        ("release", "generic_repeat", 10, False, "changed"),
    ]
    assert [d.target.scope for d in decisions] == ["call", "tool", "call"]


def test_a_run_that_ends_withdraws_what_stood_and_starts_afresh(run, played, policy_of):
    document = policy_of(warningThreshold=2, criticalThreshold=3)
    for _ in range(3):
        run.call()
    run.end()
    state = RunState("r1")
    assert said(played(run.events, document, state))[-1] == ("release", "generic_repeat", 3, False, "changed")
    assert state.ended
    run.call()
    assert played(run.events[-2:], document, state) == []
    assert (state.ended, len(state.history), state.since) == (False, 1, 8)


def test_a_sequence_that_was_passed_is_a_duplicate_and_an_offset_that_was_passed_a_redelivery(run, policy_of):
    state = RunState("r1")
    event = run.start()
    assert apply(state, event, policy_of()).effect == "applied"
    assert apply(state, event, policy_of()).effect == "redelivered"
    assert apply(state, changed(event, offset=9), policy_of()).effect == "duplicate"
    assert len(state.history) == 1


def test_events_without_sequences_are_taken_as_they_come_and_their_decisions_have_distinct_ids(run, played, policy_of):
    for _ in range(2):
        for _ in range(3):
            run.call()
        run.call(outcome=8)
    events = [changed(event, sequence=None) for event in run.events]
    decisions = played(events, policy_of(warningThreshold=2, criticalThreshold=3))
    assert len({d.decision_id for d in decisions}) == len(decisions)


def test_another_policy_changes_standing_verdicts_without_an_event(run, played, policy_of):
    for _ in range(3):
        run.call()
    state = RunState("r1")
    played(run.events, policy_of(warningThreshold=2, criticalThreshold=3), state)
    decisions = judge_again(state, run.events[0].partition, policy_of())
    assert said(decisions) == [("release", "generic_repeat", 3, False, "changed")]
    assert judge_again(state, run.events[0].partition, policy_of()) == []


def test_evidence_names_the_calls_of_the_streak_newest_first(run, played, policy_of):
    for number in range(3):
        run.start(call_id=f"c{number}")
        run.finish(call_id=f"c{number}")
    block = played(run.events, policy_of(warningThreshold=2, criticalThreshold=3))[-1]
    assert [(call.sequence, call.call_id) for call in block.evidence] == [(5, "c2"), (3, "c1"), (1, "c0")]
    assert (str(block.since), str(block.as_of)) == ("agent.tool-calls.v1[3]@1", "agent.tool-calls.v1[3]@6")


def test_three_equal_outcomes_after_a_compaction_end_the_run_even_without_a_policy(run, played):
    from schemas.policy import PolicyDocument

    run.compaction()
    for _ in range(3):
        run.call()
    assert said(played(run.events, PolicyDocument.from_mapping({}))) == [("abort", "compaction_loop_persisted", 3, False, None)]


def test_an_abort_that_a_late_compaction_contradicts_is_withdrawn(run, played, policy_of):
    run.compaction()
    run.call()
    run.call()
    late = run.compaction()
    run.call()
    in_order = played(run.events, policy_of())
    assert in_order == []
    others = [event for event in run.events if event is not late]
    assert [d.action for d in played([*others, late], policy_of())] == ["abort", "release"]


def test_a_compaction_whose_outcomes_have_left_the_history_is_too_late(run, policy_of, played):
    late = run.compaction()
    for _ in range(6):
        run.call()
    state = RunState("r1")
    played(run.events[1:], policy_of(historySize=3), state)
    assert apply(state, late, policy_of(historySize=3)).effect == "ignored"


def test_shadow_mode_stands_in_every_decision_and_a_change_of_mode_is_a_decision(run, played):
    from schemas.policy import PolicyDocument

    detection = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}
    document = PolicyDocument.from_mapping({"tools": {"loopDetection": detection}, "loopwarden": {"mode": "shadow"}})
    for _ in range(3):
        run.call()
    state = RunState("r1")
    assert {d.mode for d in played(run.events, document, state)} == {"shadow"}
    enforced = judge_again(state, run.events[0].partition, PolicyDocument.from_mapping({"tools": {"loopDetection": detection}}))
    assert [(d.action, d.mode) for d in enforced] == [("block", "enforce")]


def abort_of(run):
    run.call()
    run.compaction()
    for _ in range(3):
        run.call()
    return run.events


def test_an_abort_is_withdrawn_when_the_guard_is_switched_off_and_told_again_when_its_mode_changes(run, played, policy_of):
    state = RunState("r1")
    assert said(played(abort_of(run), policy_of(), state))[-1][:2] == ("abort", "compaction_loop_persisted")
    document = {"tools": {"loopDetection": {"enabled": True}}, "loopwarden": {"mode": "shadow"}}
    partition = run.events[0].partition
    [shadow] = judge_again(state, partition, PolicyDocument.from_mapping(document))
    assert (shadow.action, shadow.mode) == ("abort", "shadow")
    [released] = judge_again(state, partition, policy_of(enabled=False))
    assert (released.action, released.reason) == ("release", "changed")


def test_an_abort_that_a_late_compaction_leads_to_again_is_not_told_again(run, played, policy_of):
    events = list(abort_of(run))
    early = events.pop(2)  # the compaction
    second = changed(early, sequence=early.sequence + 1, offset=early.offset + 1)
    moved = [event if event.sequence <= early.sequence else changed(event, sequence=event.sequence + 5) for event in events]
    state = RunState("r1")
    decisions = played([early, *moved, second], policy_of(), state)
    assert [decision.action for decision in decisions] == ["abort"]


def test_tools_with_blank_names_and_times_at_the_ends_of_the_calendar_can_be_decided_about(run, played, policy_of):
    for _ in range(4):
        run.call(" ")
    moments = (cloudevents.MIN_TIME_MS, cloudevents.MAX_TIME_MS)
    for moment in moments:
        events = [changed(event, time=moment) for event in run.events]
        blocked = played(events, policy_of(warningThreshold=2, criticalThreshold=3))[-1]
        assert Decision.from_record(blocked.to_record(source="/t")) == blocked.as_read()
