"""What stands in the log about runs, and what never does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from schemas.cloudevents import InvalidEventError
from schemas.decisions import AsOf, Decision, Origin, Target
from streams.detection.run_state import RunState
from streams.processor.run_log import DECISION_LINES, RECORD_LINES, RunLog

TOPIC = "agent.tool-calls.v1"


class SentRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int = 0
    key: bytes | None = b"hunter2"
    value: bytes | None = b"hunter2"
    headers: tuple[tuple[str, bytes], ...] = ()


@pytest.fixture
def run_log() -> RunLog:
    return RunLog()


@pytest.fixture
def decision() -> Callable[..., Decision]:
    """Make a decision to block a call, changed as given."""

    def make(**changes: Any) -> Decision:
        fields: dict[str, Any] = {
            "decision_id": "0" * 32,
            "run_id": "run",
            "agent_id": "writer",
            "action": "block",
            "level": "critical",
            "detector": "generic_repeat",
            "target": Target(scope="call", tool="read", args_hash="1" * 32),
            "count": 20,
            "message": "read was called 20 times.",
            "warning_key": "key",
            "policy_version": "v",
            "engine_version": "1",
            "since": Origin(topic=TOPIC, partition=0, offset=0),
            "as_of": AsOf(topic=TOPIC, partition=0, offset=39, time=0),
        }
        return Decision(**{**fields, **changes})

    return make


def test_a_blocked_call_is_a_line_with_all_that_an_operator_asks(run_log: RunLog, decision: Callable[..., Decision]) -> None:
    with capture_logs() as lines:
        run_log.decided([decision(late=True)])
    assert lines == [
        {
            "log_level": "warning",
            "event": "call blocked",
            "run_id": "run",
            "agent_id": "writer",
            "action": "block",
            "detector": "generic_repeat",
            "tool": "read",
            "count": 20,
            "late": True,
            "mode": "enforce",
            "decision_id": "0" * 32,
            "at": f"{TOPIC}[0]@39",
        }
    ]


def test_an_aborted_run_is_a_line_that_names_the_tool(run_log: RunLog, decision: Callable[..., Decision]) -> None:
    message = "After a compaction read was called 3 times."
    with capture_logs() as (lines):
        run_log.decided(
            [decision(action="abort", detector="compaction_loop_persisted", target=Target(scope="run"), count=3, message=message)]
        )
    assert lines[0]["event"] == "run aborted"
    assert lines[0]["message"] == message
    assert (lines[0]["log_level"], lines[0]["count"]) == ("warning", 3)


@pytest.mark.parametrize(
    ("changes", "event", "level"),
    [({"action": "warn", "level": "warning"}, "loop warning", "info"), ({"mode": "shadow"}, "call blocked", "info")],
)
def test_what_stops_nobody_is_no_warning(
    run_log: RunLog, decision: Callable[..., Decision], changes: dict[str, Any], event: str, level: str
) -> None:
    with capture_logs() as lines:
        run_log.decided([decision(**changes)])
    assert [(line["event"], line["log_level"]) for line in lines] == [(event, level)]


def test_a_release_is_no_line(run_log: RunLog, decision: Callable[..., Decision]) -> None:
    with capture_logs() as lines:
        run_log.decided([decision(action="release", reason="changed")])
    assert lines == []


def test_a_flood_of_decisions_is_cut_short_and_counted(run_log: RunLog, decision: Callable[..., Decision]) -> None:
    with capture_logs() as lines:
        run_log.decided([decision(run_id=f"run-{number}") for number in range(10 * DECISION_LINES)])
        run_log.decided([decision(action="abort", detector="compaction_loop_persisted", target=Target(scope="run"))])
        run_log.tell_left_out(at_once=True)
    assert [line["event"] for line in lines].count("call blocked") == DECISION_LINES
    assert lines[-2]["event"] == "run aborted", "other kinds are not crowded out"
    left_out = lines[-1]
    assert left_out["event"] == "decisions that are not in this log"
    assert (left_out["action"], left_out["detector"], left_out["number"]) == ("block", "generic_repeat", 9 * DECISION_LINES)


def test_a_flood_of_bad_records_is_a_few_lines_and_a_number_for_each_code(run_log: RunLog) -> None:
    with capture_logs() as lines:
        for offset in range(1000):
            run_log.dead_lettered(SentRecord(TOPIC, 1, offset), InvalidEventError("not_json", "value: not JSON"))
        run_log.dead_lettered(SentRecord(TOPIC, 1, 1000), InvalidEventError("empty", "value: empty"))
        run_log.tell_left_out(at_once=True)
    assert [line["event"] for line in lines] == ["record dead-lettered"] * (RECORD_LINES + 1) + ["more records dead-lettered"]
    assert lines[0]["at"] == f"{TOPIC}[1]@0"
    assert lines[RECORD_LINES]["code"] == "empty"
    assert (lines[-1]["code"], lines[-1]["number"]) == ("not_json", 1000 - RECORD_LINES)
    assert "hunter2" not in str(lines)


def test_a_misrouted_event_is_a_line_that_says_whose_fault_it_is(run_log: RunLog) -> None:
    with capture_logs() as lines:
        for offset in range(100):
            run_log.misrouted(SentRecord(TOPIC, 1, offset), 0)
    assert len(lines) == RECORD_LINES
    assert "murmur2" in lines[0]["event"]
    assert (lines[0]["at"], lines[0]["partition"]) == (f"{TOPIC}[1]@0", 0)
    assert "hunter2" not in str(lines)


def test_the_armed_guard_is_told_in_the_words_of_the_reference(run_log: RunLog) -> None:
    state = RunState("run")
    state.session_id = "session"
    with capture_logs() as lines:
        run_log.guard_armed(state, attempts=3, record=SentRecord("agent.compactions.v1", 0, 7))
    assert lines[0]["event"] == "post-compaction guard armed for 3 attempts"
    assert (lines[0]["run_id"], lines[0]["session_id"]) == ("run", "session")
    assert lines[0]["at"] == "agent.compactions.v1[0]@7"
