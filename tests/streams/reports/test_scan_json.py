import json
from collections.abc import Callable

from streams.reports.scan_json import run_line, summary_line
from streams.reports.scan_report import RunReport, ScanSummary


def test_a_run_is_a_line_with_everything_but_its_timeline(run: Callable[..., RunReport]) -> None:
    line = run_line(run())
    found = json.loads(line)
    assert "\n" not in line
    assert "timeline" not in found
    assert (found["kind"], found["run_id"], found["verdict"]) == ("run", "run-1", "stopped")
    assert (found["started"], found["spent"]) == ("2026-03-02T12:00:00.000Z", {"calls": 31, "tokens": 5000, "cost": 1.5})
    (loop,) = found["loops"]
    assert (loop["first"], loop["last"], loop["after"]["calls"], loop["detectors"]) == (
        "log.jsonl:3",
        "log.jsonl:60",
        20,
        {"generic_repeat": 20},
    )


def test_the_last_line_is_the_summary(run: Callable[..., RunReport], summary: Callable[..., ScanSummary]) -> None:
    totals = summary(run(), problems=["x: empty"])
    totals.not_understood.add("log:7", "not JSON")
    found = json.loads(summary_line(totals))
    assert (found["kind"], found["runs"], found["stopped"], found["loops"], found["problems"]) == (
        "summary",
        1,
        1,
        1,
        ["x: empty"],
    )
    assert found["not_understood"] == {"lines": 1, "reasons": [{"reason": "not JSON", "lines": 1, "places": ["log:7"]}]}


def test_half_characters_and_hostile_text_are_json(run: Callable[..., RunReport], hostile: str) -> None:
    assert json.loads(run_line(run(run_id=f"{hostile}\ud800")))["run_id"] == f"{hostile}\ud800"
