"""The answers of a gate, from what it knows."""

import asyncio
import logging
import math
import threading
import time
from typing import Any

import pytest

from schemas.settings import Settings
from streams.gateway.call_identity import fingerprint_call
from streams.gateway.gate import SyncVerdictGate, VerdictGate
from tests.streams.gateway.lab import decision, fold


def gate(**options: Any) -> VerdictGate:
    """Make a gate that reads no topic, and has just read everything."""
    made = VerdictGate(Settings(), **options)
    made._feed.fresh_at = time.monotonic()
    return made


def stale_gate(**options: Any) -> VerdictGate:
    made = gate(**options)
    made._feed.fresh_at = time.monotonic() - 3600
    return made


def test_a_call_of_an_unknown_run_goes_ahead() -> None:
    verdict = gate().check("r", "read", {"a": 1})
    assert (verdict.action, verdict.allowed, verdict.refused, verdict.reason, verdict.stale) == ("allow", True, False, "", False)


def test_a_refusal_says_why_and_by_which_decision() -> None:
    made = gate()
    item = decision(params={"b": 2, "a": 1}, paired_tool="write")
    fold(made, item)
    verdict = made.check("r", " READ ", {"a": 1.0, "b": 2})
    assert (verdict.action, verdict.refused, verdict.reason) == ("block", True, item.message)
    assert (verdict.decision_id, verdict.detector, verdict.level, verdict.count, verdict.paired_tool) == (
        item.decision_id,
        "generic_repeat",
        "critical",
        20,
        "write",
    )
    assert made.check("r", "read", {"a": 2, "b": 2}).allowed
    assert made.check("r", "write", {"a": 1, "b": 2}).allowed
    assert made.check("r", "read", None, call=fingerprint_call("read", {"a": 1, "b": 2})).refused


def test_verdicts_on_a_tool_and_on_the_run_hold_for_any_parameters() -> None:
    made = gate()
    fold(made, decision(scope="tool", tool="read"), decision("abort", run_id="s", scope="run", tool=None))
    assert made.check("r", "read", object()).action == "block"
    assert made.check("r", "write", {}).allowed
    assert made.check("s", "anything", object()).action == "abort"
    ended = made.aborted("s")
    assert ended is not None
    assert ended.action == "abort"
    assert made.aborted("r") is None


def test_a_warning_is_given_once() -> None:
    made = gate()
    fold(made, decision("warn", params={}))
    verdict = made.check("r", "read", {})
    assert (verdict.action, verdict.allowed, verdict.level) == ("warn", True, "warning")
    assert made.check("r", "read", {}).action == "allow"


def test_shadow_decisions_are_shown_and_never_refuse() -> None:
    made = gate()
    fold(made, decision("abort", scope="run", tool=None, mode="shadow", offset=1))
    verdict = made.check("r", "read", {})
    assert (verdict.action, verdict.allowed) == ("allow", True)
    assert verdict.shadow is not None
    assert verdict.shadow.action == "abort"
    assert made.aborted("r") is None
    fold(made, decision(params={}, offset=2))
    verdict = made.check("r", "read", {})
    assert verdict.action == "block", "a shadow verdict hides no other"
    assert verdict.shadow is not None
    fold(made, decision("warn", run_id="s", params={}, mode="shadow"))
    assert made.check("s", "read", {}).shadow is not None
    assert made.check("s", "read", {}).shadow is None, "a warning is given once in shadow mode too"


def test_a_session_stands_in_for_a_run_without_an_id() -> None:
    made = gate()
    fold(made, decision(run_id="session:s", params={}))
    assert made.check(None, "read", {}, session_id="s").refused
    assert made.check(None, "read", {}).allowed


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("run_id", "tool", "params"),
    [
        (Odd(), "read", {}),
        ("r", Odd(), {}),
        ("r", "read", Odd()),
        (["r"], "read", {}),
        ("r", None, {}),
        ("r", "read", {Odd(): 1}),
    ],
)
def test_whatever_is_asked_nothing_is_raised(run_id: Any, tool: Any, params: Any) -> None:
    made = gate()
    fold(made, decision(params={}))
    assert made.check(run_id, tool, params).allowed


def test_without_decisions_it_fails_open_and_says_so() -> None:
    made = VerdictGate(Settings())
    assert made.lag_seconds == math.inf
    verdict = made.check("r", "read", {})
    assert (verdict.action, verdict.stale) == ("allow", True)
    made = stale_gate()
    fold(made, decision(params={}))
    verdict = made.check("r", "read", {})
    assert (verdict.action, verdict.stale) == ("block", True), "what was known stays in force"
    assert made.lag_seconds > 3599


def test_on_request_it_fails_closed() -> None:
    made = stale_gate(fail="closed")
    fold(made, decision("warn", params={}), decision(run_id="s", params={}))
    verdict = made.check("r", "read", {})
    assert (verdict.action, verdict.stale, verdict.decision_id) == ("block", True, None)
    assert "could not be read for 3600 seconds" in verdict.reason
    assert made.check("s", "read", {}).decision_id is not None
    made._feed.fresh_at = time.monotonic()
    assert made.check("r", "read", {}).action == "warn", "the warning was not used up by a refusal"
    assert "not been read yet" in VerdictGate(Settings(), fail="closed").check("r", "t").reason


def test_another_way_to_fail_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="fail"):
        VerdictGate(Settings(), fail="ajar")  # type: ignore[arg-type]  # on purpose


def test_a_run_that_ended_can_be_forgotten() -> None:
    made = gate()
    fold(made, decision(params={}))
    assert made.runs == 1
    made.forget("r")
    assert made.runs == 0
    assert made.check("r", "read", {}).allowed


def test_runs_beyond_the_limit_are_forgotten_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    made = gate(max_runs=10)
    for number in range(100):
        fold(made, decision(run_id=f"r{number}", params={}))
    assert made.runs <= 10
    assert len([record for record in caplog.records if "max_runs" in record.message]) == 1


def test_threads_ask_while_decisions_come_and_runs_go() -> None:
    made = gate(max_runs=50)
    fold(made, decision(run_id="held", params={}))
    over, missed = threading.Event(), []

    def ask() -> None:
        while not over.is_set():
            if not made.check("held", "read", {}).refused:
                missed.append(1)
            made.check("r3", "read", {})

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3000):
            fold(made, decision("warn", run_id=f"r{number % 80}", params={}, offset=number + 2))
            fold(made, decision(run_id="held", params={}, offset=number + 2))
            made._map.forget_idle(-1.0)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert missed == []


async def test_the_log_tells_once_that_decisions_cannot_be_read_and_once_that_they_can(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(bootstrap_servers="127.0.0.1:1")
    async with VerdictGate(settings, max_lag=0.01) as made:
        caplog.set_level(logging.WARNING, "loopwarden.gateway")
        while "fail open" not in caplog.text:  # noqa: ASYNC110  (the log has no event to wait for)
            await asyncio.sleep(0.02)
        made._feed.fresh_at = math.inf
        while "are read again" not in caplog.text:  # noqa: ASYNC110  (the log has no event to wait for)
            await asyncio.sleep(0.02)
    assert caplog.text.count("fail open") == 1
    assert caplog.text.count("decisions cannot be read") == 1


def test_a_program_without_a_loop_starts_and_stops_a_gate() -> None:
    with SyncVerdictGate(Settings(bootstrap_servers="127.0.0.1:1")) as made:
        assert made.check("r", "read", {}).allowed
        assert not made.wait_until_caught_up(timeout=0.2)
    assert not made.wait_until_caught_up(timeout=0.2)
    made.close()
