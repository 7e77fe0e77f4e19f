"""Laws of the engine, over runs that hypothesis makes up."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Decision
from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState
from streams.gateway.verdict_map import VerdictMap
from tests.facts import changed

PARTITION = RunPartition("agent.tool-calls.v1", 0)
POLICY = PolicyDocument.from_mapping(
    {"tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 4, "unknownToolThreshold": 3}}}
)

_keys = st.tuples(st.sampled_from(["read", "write"]), st.sampled_from([bytes(16), bytes(15) + b"\x01"]))
_call_ids = st.sampled_from([None, "c1", "c2"])
_tool_events = st.one_of(
    st.fixed_dictionaries({"kind": st.just("started"), "key": _keys, "call_id": _call_ids}),
    st.fixed_dictionaries(
        {
            "kind": st.just("finished"),
            "key": _keys,
            "call_id": _call_ids,
            "outcome": st.sampled_from([None, b"a" * 8, b"a" * 8, b"b" * 8]),
            "unknown_tool": st.sampled_from([None, None, "nope"]),
        }
    ),
    st.fixed_dictionaries({"kind": st.just("blocked"), "key": _keys}),
)
_compactions = st.fixed_dictionaries({"kind": st.just("compaction"), "arms": st.booleans()})


@st.composite
def runs(draw: st.DrawFn, compactions: int = 3) -> list[Facts]:
    """A run of up to 60 events with increasing sequences and some compactions among them."""
    parts = draw(st.lists(_tool_events, min_size=1, max_size=60))
    for _ in range(draw(st.integers(0, compactions))):
        parts.insert(draw(st.integers(0, len(parts))), draw(_compactions))
    return [
        Facts(partition=PARTITION, offset=10 * number, time=1000 + number, sequence=3 * number, **part)
        for number, part in enumerate(parts)
    ]


def interleaved(draw: st.DrawFn, events: list[Facts]) -> list[Facts]:
    """The same events, each topic in its order, the two mixed anyhow."""
    topics = [[e for e in events if e.kind != "compaction"], [e for e in events if e.kind == "compaction"]]
    order = draw(st.permutations([0] * len(topics[0]) + [1] * len(topics[1])))
    return [topics[topic].pop(0) for topic in order]


def decisions_of(events: list[Facts], state: RunState | None = None) -> list[MadeDecision]:
    state = state or RunState("r1")
    return [decision for event in events for decision in apply(state, event, POLICY).decisions]


def without_withdrawn(decisions: list[MadeDecision]) -> dict[str, MadeDecision]:
    """Leave out aborts that were withdrawn, with their release: a later compaction was read after them."""
    kept: list[MadeDecision] = []
    for decision in decisions:
        if decision.target.scope == "run" and decision.action == "release":
            index = max(number for number, other in enumerate(kept) if other.action == "abort")
            del kept[index]
        else:
            kept.append(decision)
    return {decision.decision_id: decision for decision in kept}


@given(st.data())
def test_any_interleaving_of_the_two_topics_gives_the_same_decisions(data: st.DataObject) -> None:
    events = data.draw(runs(compactions=1).filter(lambda run: len(run) <= 31))
    assert without_withdrawn(decisions_of(data.draw(st.composite(interleaved)(events)))) == without_withdrawn(
        decisions_of(events)
    )


@given(st.data())
def test_with_several_compactions_the_decisions_are_the_same_apart_from_withdrawn_aborts(data: st.DataObject) -> None:
    events = data.draw(runs().filter(lambda run: len(run) <= 31))
    assert without_withdrawn(decisions_of(data.draw(st.composite(interleaved)(events)))) == without_withdrawn(
        decisions_of(events)
    )


@given(runs(), st.data())
def test_a_codec_round_trip_at_any_point_and_events_delivered_again_change_nothing(
    events: list[Facts], data: st.DataObject
) -> None:
    state, found = RunState("r1"), []
    for number, event in enumerate(events):
        if data.draw(st.booleans()):
            state = state_codec.decode("r1", state_codec.encode(state))
        found += apply(state, event, POLICY).decisions
        again = data.draw(st.integers(0, number))
        found += apply(state, events[again], POLICY).decisions
        found += apply(state, changed(events[again], offset=events[number].offset + 5), POLICY).decisions
    assert found == decisions_of(events)


@given(runs(compactions=0))
def test_the_decisions_folded_in_order_are_the_standing_verdicts(events: list[Facts]) -> None:
    state, gate = RunState("r1"), VerdictMap()
    for event in events:
        for decision in apply(state, event, POLICY).decisions:
            gate.fold(decision.as_read())
        for signature in state.history.signatures:
            answer = gate.lookup("r1", signature[0], signature[1].hex())
            standing = state.standing.get((signature[0],)) or state.standing.get(signature)
            assert (answer and (answer.action, answer.detector, answer.count)) == (
                standing and (standing.action, standing.detector, standing.count)
            )


@given(runs())
def test_every_decision_is_one_of_the_contract(events: list[Facts]) -> None:
    """They are made without its checks."""
    for made in decisions_of(events):
        record = made.to_record(source="/t", decided_at=1)
        assert Decision.from_record(record).to_record(source="/t") == record


@given(runs())
def test_decision_ids_are_unique_within_a_run(events: list[Facts]) -> None:
    ids = [decision.decision_id for decision in decisions_of(events)]
    assert len(ids) == len(set(ids))


@given(st.data())
def test_decision_ids_are_unique_whatever_the_interleaving(data: st.DataObject) -> None:
    found = decisions_of(data.draw(st.composite(interleaved)(data.draw(runs()))))
    assert len({decision.decision_id for decision in found}) == len(found)


@given(runs(), st.data())
def test_a_run_that_ended_goes_on_as_one_whose_state_was_dropped(events: list[Facts], data: st.DataObject) -> None:
    """A worker may have dropped what is left of it or not, as it came to commit."""
    end = Facts("ended", PARTITION, offset=5, time=1, sequence=1)
    kept = RunState("r1")
    apply(kept, Facts("started", PARTITION, offset=1, time=0, sequence=0, key=("x", bytes(16)), agent_id="a"), POLICY)
    apply(kept, end, POLICY)
    rest = [changed(event, offset=event.offset + 10) for event in events]
    if data.draw(st.booleans()):
        kept = state_codec.decode("r1", state_codec.encode(kept))
    assert decisions_of(rest, kept) == decisions_of(rest)


@given(runs())
def test_what_is_only_reported_changes_nothing_about_what_is_enforced(events: list[Facts]) -> None:
    """A detector that is tried out in shadow mode must not switch another one off."""
    block = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 4, "unknownToolThreshold": 3}
    off = {"tools": {"loopDetection": {**block, "detectors": {"pingPong": False}}}}
    shadow = {"tools": {"loopDetection": block}, "loopwarden": {"shadow": ["ping_pong", "unknown_tool_repeat"]}}
    states = [RunState("r1"), RunState("r1")]
    policies = [PolicyDocument.from_mapping(off), PolicyDocument.from_mapping(shadow)]
    for event in events:
        for state, policy in zip(states, policies, strict=True):
            apply(state, event, policy)
        before, now = (state.standing.items() for state in states)
        tool_wide = {key[0] for key, _ in before if len(key) == 1}  # enforced in the first, reported in the second
        blocked = {key for key, standing in before if standing.action == "block" and len(key) == 2}
        enforced = {key for key, standing in now if standing.mode == "enforce" and standing.action == "block"}
        assert blocked <= enforced
        assert all(key[0] in tool_wide for key in enforced - blocked if len(key) == 2)
