import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import PolicyDocument
from streams.reports.scan_report import LoopReport, RunReport, ScanSummary
from streams.reports.timeline import CallMark, GapMark, VerdictMark
from streams.transcripts import judging
from streams.transcripts.items import CallFinished, CallStarted, Place, RunItem, RunRef, Spent
from streams.transcripts.judging import Judge, NotJudgedError

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]
POLICY = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})


def call(number: int, run: str = "r", params: Any = "same", result: Any = "x", tool: str = "exec") -> list[RunItem]:
    ref, place = RunRef(run), Place("log", number)
    return [
        CallStarted(ref, place, number * 1000, f"c{number}", tool, params),
        CallFinished(ref, place, number * 1000 + 1, f"c{number}", tool, params, result=result),
    ]


def judged(items: list[RunItem], *, timelines: bool = False) -> list[RunReport]:
    judge = Judge(POLICY, timelines=timelines)
    for item in items:
        judge.take(item, format_name="test")
    return list(judge.reports())


def only_loop(items: list[RunItem]) -> LoopReport:
    (report,) = judged(items)
    (loop,) = report.loops
    return loop


def test_a_loop_has_its_place_its_calls_and_what_came_after_its_first_verdict() -> None:
    items: list[RunItem] = []
    for number in range(1, 31):
        items.append(Spent(RunRef("r"), Place("log", number), None, 100, 0.5))
        items += call(number, params="same" if number > 5 else number)
    loop = only_loop(items)
    assert (loop.first, loop.last, loop.calls) == ("log:6", "log:30", 25)
    assert (loop.verdict_at, loop.critical_at, loop.level, loop.action) == ("log:15", "log:25", "critical", "block")
    assert (loop.after.calls, loop.after.tokens, loop.after.cost) == (15, 1500, 7.5)


def test_what_is_spent_after_the_loops_last_call_is_not_the_loops_but_the_runs() -> None:
    items = [item for number in range(1, 13) for item in call(number)]
    items += [Spent(RunRef("r"), Place("log", 20), None, 7)] * 3 + call(20, params="other")
    (report,) = judged(items)
    assert (report.loops[0].after.calls, report.loops[0].after.tokens) == (2, None)
    assert (report.after.calls, report.after.tokens) == (3, 21)


def test_verdicts_about_the_same_calls_are_one_loop_whichever_detector_they_come_from() -> None:
    loop = only_loop([item for number in range(1, 41) for item in call(number, params=number % 2)])
    assert set(loop.detectors) >= {"ping_pong", "generic_repeat"}
    assert loop.calls == 40


def test_two_loops_far_from_each_other_are_two() -> None:
    between = [item for number in range(13, 60) for item in call(number, params=number)]
    again = [item for number in range(60, 85) for item in call(number)]  # 20: a warning is announced only once per ten
    (report,) = judged([item for number in range(1, 13) for item in call(number)] + between + again)
    assert [(loop.first, loop.last, loop.calls) for loop in report.loops] == [("log:1", "log:12", 12), ("log:60", "log:84", 25)]


def test_after_an_abort_everything_is_too_much_but_only_the_loops_calls_are_the_loops(scan: ScanPaths) -> None:
    runs, _ = scan(Path(__file__).parent / "samples" / "claude-code" / "compactions.jsonl")
    (loop,) = runs[0].loops
    assert (loop.action, loop.calls, loop.after.calls) == ("abort", 3, 3)


runs_strategy = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=4)


@given(runs_strategy, st.randoms(use_true_random=False))
def test_runs_do_not_touch_each_other_however_they_interleave(runs: list[list[int]], chance: Any) -> None:
    queues = [
        [call(number, f"run{index}", params) for number, params in enumerate(run, start=1)] for index, run in enumerate(runs)
    ]
    one_by_one = judged([item for queue in queues for pair in queue for item in pair])
    waiting, mixed = [list(queue) for queue in queues], []
    while any(waiting):
        queue = chance.choice([queue for queue in waiting if queue])
        mixed += queue.pop(0)
    assert sorted(judged(mixed), key=lambda run: run.run_id) == sorted(one_by_one, key=lambda run: run.run_id)


def test_runs_that_wait_on_disk_are_judged_as_if_they_were_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [item for number in range(1, 26) for run in range(12) for item in call(number, f"run{run}", run and number)]
    at_hand = judged(items, timelines=True)
    shelf = judging.RunShelf
    monkeypatch.setattr(judging, "RunShelf", lambda: shelf(at_hand=3))
    assert judged(items, timelines=True) == at_hand
    assert [report.run_id for report in at_hand] == [f"run{run}" for run in range(12)]


def test_what_cannot_be_hashed_is_told_and_counts_for_nothing() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    judge = Judge(POLICY)
    with pytest.raises(NotJudgedError, match="cannot be hashed"):
        judge.take(call(1, result=deep)[1], format_name="test")


def test_a_timeline_has_calls_with_their_outcomes_and_verdicts_in_order() -> None:
    items = [item for number in range(1, 11) for item in call(number)]
    (report,) = judged(items, timelines=True)
    *marks, verdict = report.timeline
    assert [(mark.number, mark.outcome, mark.place) for mark in marks if isinstance(mark, CallMark)] == [
        (number, "result", f"log:{number}") for number in range(1, 11)
    ]
    assert isinstance(verdict, VerdictMark)
    assert (verdict.action, verdict.count) == ("warn", 10)
    assert judged(items)[0].timeline == ()


def test_a_very_long_timeline_keeps_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_HEAD_MARKS", 5)
    monkeypatch.setattr(judging, "_TAIL_MARKS", 5)
    (report,) = judged([item for number in range(1, 31) for item in call(number, params=number)], timelines=True)
    numbers = [mark.number for mark in report.timeline if isinstance(mark, CallMark)]
    assert numbers == [1, 2, 3, 4, 5, 26, 27, 28, 29, 30]
    assert GapMark(20) in report.timeline
    assert all(mark.outcome == "result" for mark in report.timeline if isinstance(mark, CallMark))


def test_turns_do_not_count_against_each_other(tmp_path: Path, scan: ScanPaths) -> None:
    lines = []
    for turn in range(4):
        lines.append({"role": "user", "content": "check again"})
        for number in range(3):
            made = {"id": f"c{turn}{number}", "function": {"name": "check", "arguments": "{}"}}
            lines += [{"role": "assistant", "content": None, "tool_calls": [made]}]
            lines += [{"role": "tool", "tool_call_id": f"c{turn}{number}", "content": "all well"}]
    file = tmp_path / "heartbeat.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert [run.verdict for run in scan(file)[0]] == ["warned"]
    assert [(run.run_id, run.verdict) for run in scan(file, turns=True)[0]] == [
        (f"heartbeat#{n}", "healthy") for n in range(1, 5)
    ]


def test_a_run_that_is_taken_up_again_after_a_week_starts_afresh() -> None:
    def week(number: int, days: int) -> list[RunItem]:
        return [item._replace(time=(number * 1000 + days * 86_400_000)) for item in call(number)]

    first = [item for number in range(1, 7) for item in week(number, 0)]
    assert judged(first + [item for number in range(7, 13) for item in week(number, 6)])[0].verdict == "warned"
    assert judged(first + [item for number in range(7, 13) for item in week(number, 8)])[0].verdict == "healthy"
    undated = [item._replace(time=None) for number in range(7, 13) for item in call(number)]
    assert judged(undated + [item for number in range(13, 19) for item in week(number, 8)])[0].verdict == "warned"


def test_a_timeline_of_hashes_shows_the_preview_that_was_sent() -> None:
    started = CallStarted(RunRef("r"), Place("log", 1), 1, None, "exec", args_hash="0" * 32, preview="ls  -l")
    (mark,) = judged([started], timelines=True)[0].timeline
    assert isinstance(mark, CallMark)
    assert mark.arguments == "ls -l"
