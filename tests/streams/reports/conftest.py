"""Reports of made-up runs."""

from collections.abc import Callable
from typing import Any

import pytest

from streams.reports.scan_report import LoopReport, RunReport, ScanSummary, Spending
from streams.reports.timeline import CallMark, CompactionMark, GapMark, PromptMark, VerdictMark

HOSTILE = "</style><script>alert('x')</script>\"' onload=alert(1) \x1b[31m\u202e"


@pytest.fixture
def hostile() -> str:
    """Text that would do harm if it were not escaped."""
    return HOSTILE


@pytest.fixture
def loop() -> Callable[..., LoopReport]:
    """Make a loop: `loop(level="warning")`."""

    def make(**given: Any) -> LoopReport:
        fields: dict[str, Any] = {
            "level": "critical",
            "action": "block",
            "detectors": {"generic_repeat": 20},
            "tools": ("exec",),
            "message": "exec has been called 20 times.",
            "first": "log.jsonl:3",
            "last": "log.jsonl:60",
            "verdict_at": "log.jsonl:22",
            "critical_at": "log.jsonl:42",
            "calls": 30,
            "after": Spending(calls=20, tokens=1234, cost=0.05),
        }
        return LoopReport(**(fields | given))

    return make


@pytest.fixture
def run(loop: Callable[..., LoopReport]) -> Callable[..., RunReport]:
    """Make a run with everything that a timeline may hold: `run(verdict="healthy", loops=())`."""

    def make(**given: Any) -> RunReport:
        marks = [
            PromptMark("log.jsonl:1", 0),
            *(CallMark(n, f"log.jsonl:{n}", n * 1000, "exec", "exec 0a", "command=ls", "result", "aa") for n in range(2, 6)),
            VerdictMark("log.jsonl:5", "warn", "generic_repeat", 10, "Ten times."),
            CallMark(6, "log.jsonl:6", None, "exec", "exec 0a", "command=ls", "error", "bb"),
            VerdictMark("log.jsonl:6", "block", "generic_repeat", 20, "Twenty times.", shadow=True),
            CallMark(7, "log.jsonl:7", None, "read", "read 0b"),
            CallMark(8, "log.jsonl:8", None, "read", "read 0c", "", "blocked"),
            CompactionMark("log.jsonl:9", None, True, 9000, 100),
            GapMark(17),
            VerdictMark("log.jsonl:10", "abort", "compaction_loop_persisted", 3, "Ended."),
        ]
        fields: dict[str, Any] = {
            "run_id": "run-1",
            "session_id": "session-1",
            "agent_id": None,
            "parent_run_id": None,
            "format": "calls",
            "first": "log.jsonl:1",
            "last": "log.jsonl:70",
            "started": 1_772_452_800_000,
            "ended": 1_772_452_860_000,
            "spent": Spending(calls=31, tokens=5000, cost=1.5),
            "errors": 1,
            "unanswered": 2,
            "compactions": 1,
            "prompts": 1,
            "refused": 0,
            "verdict": "stopped",
            "after": Spending(calls=20, tokens=1234, cost=0.05),
            "loops": (loop(),),
            "timeline": tuple(marks),
        }
        return RunReport(**(fields | given))

    return make


@pytest.fixture
def summary() -> Callable[..., ScanSummary]:
    """Make the summary of some runs: `summary(run, run, problems=[...])`."""

    def make(*runs: RunReport, **given: Any) -> ScanSummary:
        made = ScanSummary(files={"calls": 1}, policy_version="abc", **given)
        for report in runs:
            made.add(report)
        return made

    return make
