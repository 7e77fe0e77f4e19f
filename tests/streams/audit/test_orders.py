"""The law behind verification: however a worker interleaved the two topics, an honest one shows no difference."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from streams.audit import Input, InputRecord, Replayer
from streams.audit.comparison import Comparison
from streams.audit.findings import Finding, Tally
from streams.audit.published import PublishedDecisions, payload_of_record
from streams.detection.engine import apply
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState

HOME = RunPartition("agent.tool-calls.v1", 0)
#: A short history, so that compactions often come too late.
POLICY = PolicyDocument.from_mapping(
    {"tools": {"loopDetection": {"enabled": True, "historySize": 4, "warningThreshold": 2, "criticalThreshold": 3}}}
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Input], list[Input]]:
    """One run of tool calls and compactions, which may end; each topic in its order."""
    steps = draw(st.lists(st.sampled_from(["read", "read", "read", "exec", "compaction", "compaction"]), min_size=1, max_size=24))
    steps += ["ended"] if draw(st.booleans()) else []
    calls: list[Input] = []
    compactions: list[Input] = []
    sequence = 0
    for step in steps:
        parts = [step] if step in ("compaction", "ended") else ["started", "finished"]
        for kind in parts:
            sequence += 1
            into = compactions if kind == "compaction" else calls
            more = {"arms": True} if kind == "compaction" else {}
            if kind in ("started", "finished"):
                more = {"key": (step, bytes(16))} | ({"outcome": b"same"} if kind == "finished" else {})
            facts = Facts(kind, HOME, offset=len(into), time=sequence, sequence=sequence, **more)  # type: ignore[arg-type]  # a kind
            into.append(Input("r", facts, 10_000 * sequence))
    return calls, compactions


def interleaved(draw: st.DrawFn, calls: list[Input], compactions: list[Input]) -> list[Input]:
    order = draw(st.permutations([0] * len(calls) + [1] * len(compactions)))
    topics = [list(calls), list(compactions)]
    return [topics[topic].pop(0) for topic in order]


def compared(calls: list[Input], compactions: list[Input], published: Iterable[MadeDecision]) -> tuple[Tally, list[Finding]]:
    records = [InputRecord("d", 0, n, n, b"r", one.to_record(source="s")) for n, one in enumerate(published)]
    there = PublishedDecisions("d", 0, start=0, end=10_000, log_start=0, before=POLICY.version)
    for record in records:
        there.take(record)
    comparison = Comparison(
        there, settled=(10_000, 10_000), read_payload=lambda offset: payload_of_record(records[offset]), place_of=str
    )
    findings: list[Finding] = []
    for one in Replayer(POLICY, partition=HOME, was_published=there.has).replay(calls, compactions):
        findings += comparison.take(one)
    findings += comparison.finish()
    there.close()
    return comparison.tally, findings


def decided(events: Iterable[Input]) -> list[MadeDecision]:
    state = RunState("r")
    return [decision for event in events for decision in apply(state, event.facts, POLICY).decisions]


@given(runs(), st.data())
def test_no_order_of_the_topics_is_a_difference(run: tuple[list[Input], list[Input]], data: st.DataObject) -> None:
    published = decided(data.draw(st.composite(interleaved)(*run)))
    tally, findings = compared(*run, published)
    assert findings == [], [finding.to_json() for finding in findings]
    assert tally.equal + tally.withdrawn == len({one.decision_id for one in published})


@given(runs(), st.data())
def test_a_removed_decision_about_calls_is_found_in_any_order(run: tuple[list[Input], list[Input]], data: st.DataObject) -> None:
    published = decided(data.draw(st.composite(interleaved)(*run)))
    about_calls = [index for index, one in enumerate(published) if one.target.scope != "run"]
    if not about_calls:
        return
    gone = data.draw(st.sampled_from(about_calls))
    _, findings = compared(*run, published[:gone] + published[gone + 1 :])
    assert [(one.kind, one.decision_id) for one in findings] == [("missing", published[gone].decision_id)]
