"""What becomes of reports: events on their way, and never an error in the agent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cloudevents import parse
from schemas.events import CompactionCompleted, RunEnded, ToolCallBlocked, ToolCallFinished, ToolCallStarted, parse_event
from schemas.settings import Settings
from streams.detection.facts import RunPartition, facts_of
from streams.gateway.event_writer import PREVIEW_LENGTH
from streams.gateway.publisher import EventPublisher
from tests.streams.gateway.lab import unsent

SETTINGS = Settings(max_event_bytes=10_000)
SECRET = "correct horse battery staple"


def publisher(**options: Any) -> EventPublisher:
    return EventPublisher(SETTINGS, **options)


def wire(made: EventPublisher) -> bytes:
    return b"\n".join(event.value for event in made._outbox.take())


class Odd:
    """Has no JSON form, and cannot be shown either."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def test_by_default_nothing_but_fingerprints_leaves_the_process() -> None:
    made = publisher()
    made.call_started("r", "exec", {"command": SECRET})
    made.call_finished("r", "exec", {"command": SECRET}, result={"details": {"status": "failed", "aggregated": SECRET}})
    made.call_finished("r", "exec", {"command": SECRET}, error=ValueError(SECRET))
    made.call_blocked("r", "exec", {"command": SECRET}, whatever=SECRET)  # type: ignore[call-arg]  # on purpose
    text = wire(made)
    assert text.count(b"args_hash") == 4
    assert text.count(b"outcome_hash") == 2
    for word in SECRET.split():
        assert word.encode() not in text


def test_a_preview_is_bounded_and_full_content_is_whole() -> None:
    made = publisher(content="preview")
    made.call_started("r", "read", {"path": "p" * 5000})
    made.call_finished("r", "read", {}, result=SECRET)
    started, finished = unsent(made)
    assert isinstance(started, ToolCallStarted)
    assert len(started.preview or "") == PREVIEW_LENGTH
    assert isinstance(finished, ToolCallFinished)
    assert (finished.preview, finished.has_result) == (SECRET, False)
    made = publisher(content="full")
    made.call_finished("r", "read", {"a": 1.0}, result={"x": [SECRET]})
    (whole,) = unsent(made)
    assert isinstance(whole, ToolCallFinished)
    assert (whole.params, whole.result, whole.args_hash) == ({"a": 1.0}, {"x": [SECRET]}, None)


@pytest.mark.parametrize("result", ["x" * 20_000, {"odd": Odd(), "details": {}}], ids=["too large", "odd part"])
def test_content_that_cannot_be_sent_goes_as_its_hash(result: Any) -> None:
    made = publisher(content="full")
    made.call_finished("r", "read", {}, result=result)
    (event,) = unsent(made)
    assert isinstance(event, ToolCallFinished)
    assert (event.has_result, event.outcome_hash is None) == (False, False)
    assert made.dropped == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "details", "status", "text", "content"]), inner)
    ),
    max_leaves=8,
)


@given(params=JSON, result=JSON, tool=st.sampled_from(["read", " BASH", "process", "message"]))
def test_hashes_and_content_mean_the_same_to_a_worker(params: Any, result: Any, tool: str) -> None:
    found = []
    for content in ("hash", "full", "preview"):
        made = publisher(content=content)
        made.call_finished("r", tool, params, result=result, call_id="c")
        (event,) = made._outbox.take()
        envelope, data = parse_event(event.value, key=b"r", max_bytes=1 << 20)
        facts = facts_of(envelope, data, partition=RunPartition("t", 0), offset=0, timestamp=0)
        found.append((facts.kind, facts.key, facts.outcome, facts.unknown_tool, facts.poll, facts.call_id))
    assert found[0] == found[1] == found[2]


def test_every_report_has_an_id_a_time_and_a_higher_sequence_over_both_topics() -> None:
    made = publisher(source="/gw", agent_id="owl")
    made.call_started("r", "read", {"a": 1}, call_id="c", session_id="s", round=3, parent_run_id="p")
    made.call_finished("r", "read", {"a": 1}, error="Unknown tool: nosuch")
    made.call_blocked("r", "read", {"a": 1}, reason="approval")
    made.compaction("r", will_retry=True, trigger="overflow", tokens_before=10)
    made.run_ended("r", status="done", agent_id="fox")
    events = made._outbox.take()
    envelopes = [parse(event.value) for event in events]
    sequences = [envelope.sequence or 0 for envelope in envelopes]
    assert sequences == sorted(set(sequences))
    assert len({envelope.id for envelope in envelopes}) == 5
    assert all(envelope.time for envelope in envelopes)
    assert {envelope.source for envelope in envelopes} == {"/gw"}
    assert [event.topic for event in events] == [
        *["agent.tool-calls.v1"] * 3,
        "agent.compactions.v1",
        "agent.tool-calls.v1",
    ]
    raw = [json.loads(event.value) for event in events]
    assert all(value["partitionkey"] == value["subject"] == "r" and len(value["sequence"]) == 19 for value in raw)
    started, finished, blocked, compaction, ended = (parse_event(event.value, key=b"r", max_bytes=1 << 20)[1] for event in events)
    assert (started.session_id, started.agent_id, started.round, started.parent_run_id) == ("s", "owl", 3, "p")
    assert isinstance(finished, ToolCallFinished)
    assert (finished.unknown_tool, finished.is_error) == ("nosuch", True)
    assert isinstance(blocked, ToolCallBlocked)
    assert blocked.reason == "approval"
    assert isinstance(compaction, CompactionCompleted)
    assert (compaction.will_retry, compaction.tokens_before) == (True, 10)
    assert isinstance(ended, RunEnded)
    assert (ended.status, ended.agent_id) == ("done", "fox")


def test_a_restarted_publisher_goes_on_above_what_was_sent_before() -> None:
    first, second = publisher(), publisher()
    first.call_started("r", "read")
    second.call_started("r", "read")
    (before,), (after,) = first._outbox.take(), second._outbox.take()
    assert (parse(before.value).sequence or 0) < (parse(after.value).sequence or 0)
    assert parse(before.value).id != parse(after.value).id


def test_a_session_stands_in_for_a_run_without_an_id() -> None:
    made = publisher()
    made.call_started(None, "read", session_id="s")
    made.call_started(None, "read")
    (event,) = unsent(made)
    assert event.run_id == "session:s"
    assert made.dropped == 1


def deep() -> Any:
    value: Any = 1
    for _ in range(3000):
        value = {"a": value}
    return value


ODD_REPORTS = {
    "object": lambda made: made.call_started("r", "read", {"a": Odd()}),
    "object in a list": lambda made: made.call_started("r", "read", [1, [Odd()]]),
    "deep nesting": lambda made: made.call_started("r", "read", deep()),
    "tool that cannot be shown": lambda made: made.call_started("r", Odd(), {}),
    "session that cannot be shown": lambda made: made.call_started("r", "read", {}, session_id=Odd()),
    "compaction of a wrong type": lambda made: made.compaction("r", will_retry="perhaps"),
    "negative tokens": lambda made: made.compaction("r", will_retry=True, tokens_before=-1),
}


@pytest.mark.parametrize("name", ODD_REPORTS)
def test_what_cannot_be_reported_is_counted_and_told_of_by_the_next_event_of_the_run(name: str) -> None:
    made = publisher()
    ODD_REPORTS[name](made)
    ODD_REPORTS[name](made)
    assert (made.dropped, made.pending) == (2, 0)
    made.call_started("other", "read", {})
    made.call_started("r", "read", {})
    made.call_started("r", "read", {})
    assert [(event.run_id, event.lost_events) for event in unsent(made)] == [("other", None), ("r", 2), ("r", None)]


def test_nan_is_null_and_loses_nothing() -> None:
    made = publisher(content="full")
    made.call_started("r", "read", {"a": float("nan"), "b": float("inf")})
    (event,) = unsent(made)
    assert isinstance(event, ToolCallStarted)
    assert event.params == {"a": None, "b": None}


@pytest.mark.parametrize("outcome", [{"result": Odd()}, {"result": [deep()]}, {"error": {"e": Odd()}}])
def test_an_outcome_that_cannot_be_fingerprinted_is_not_known(outcome: dict[str, Any]) -> None:
    made = publisher()
    made.call_finished("r", "read", {}, **outcome)
    (event,) = unsent(made)
    assert isinstance(event, ToolCallFinished)
    assert event.outcome_hash is None
    assert made.dropped == 0


def test_a_full_buffer_drops_what_comes_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    made = publisher(buffer_events=3)
    for _ in range(10):
        made.call_started("r", "read", {})
    assert (made.pending, made.dropped) == (3, 7)
    assert [record.message for record in caplog.records if "dropped" in record.message] == [
        "events are dropped: 3 wait for Kafka, which is slow or away; `dropped` counts them"
    ]
    events = made._outbox.take()
    made._outbox.settle(events)
    assert "7 were dropped meanwhile" in caplog.text
    made.call_started("r", "read", {})
    assert [event.lost_events for event in unsent(made)] == [7]


def test_the_buffer_is_bounded_in_bytes_too() -> None:
    made = publisher(content="full", buffer_bytes=20_000)
    for _ in range(10):
        made.call_started("r", "read", {"text": "x" * 9_000})
    assert made.pending == 3


def test_after_the_end_nothing_is_taken() -> None:
    made = publisher()
    made._closed = True
    made.call_started("r", "read", {})
    assert (made.pending, made.dropped) == (0, 1)
