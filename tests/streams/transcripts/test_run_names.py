import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.cloudevents import structured
from streams.reports.scan_report import RunReport, ScanSummary

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]


def calls(run: str, numbers: range) -> str:
    lines = [{"run": run, "seq": n, "tool": "ls", "args": {}, "result": "x"} for n in numbers]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def events(run: str, numbers: range, source: str = "/gateway") -> str:
    def event(number: int) -> str:
        data: dict[str, Any] = {"run_id": run, "tool": "ls", "params": {}}
        kind = "dev.loopwarden.tool-call.started.v1"
        return structured(event_type=kind, source=source, event_id=f"{number}", run_id=run, data=data, sequence=number).decode()

    return "".join(f"{event(number)}\n" for number in numbers)


def found(runs: list[RunReport]) -> list[tuple[str, int]]:
    return [(run.run_id, run.spent.calls) for run in runs]


def test_a_run_goes_on_in_the_next_file_when_its_numbers_do(tmp_path: Path, scan: ScanPaths) -> None:
    for name, numbers in (("1", range(1, 6)), ("2", range(6, 11))):
        (tmp_path / f"calls-{name}.jsonl").write_text(calls("c", numbers))
        (tmp_path / f"events-{name}.jsonl").write_text(events("e", numbers))
    assert found(scan(tmp_path)[0]) == [("c", 10), ("e", 10)]


def test_a_run_that_begins_again_in_another_file_is_another_run(tmp_path: Path, scan: ScanPaths) -> None:
    for name in ("1", "2"):
        (tmp_path / f"calls-{name}.jsonl").write_text(calls("c", range(6)))
        (tmp_path / f"events-{name}.jsonl").write_text(events("e", range(6), source=f"/gateway/{name}"))
    runs, summary = scan(tmp_path)
    assert found(runs) == [("c", 6), ("c@calls-2", 6), ("e", 6), ("e@events-2", 6)]
    assert summary.copies == 0


def test_files_of_events_that_overlap_are_one_run(tmp_path: Path, scan: ScanPaths) -> None:
    (tmp_path / "1.jsonl").write_text(events("e", range(1, 8)))
    (tmp_path / "2.jsonl").write_text(events("e", range(4, 11)))
    runs, summary = scan(tmp_path)
    assert (found(runs), summary.copies) == ([("e", 10)], 4)
