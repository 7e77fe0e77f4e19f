"""Ten hand-made samples of each format, each with what it shows and what must be found in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.reports.scan_report import RunReport, ScanSummary
from streams.transcripts.registry import FORMATS

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]

SAMPLES = Path(__file__).parent / "samples"

CASES = [
    pytest.param(folder.name, name, expected, id=f"{folder.name}/{name}")
    for folder in sorted(SAMPLES.iterdir())
    for name, expected in json.loads((folder / "expected.json").read_text()).items()
]


def test_every_format_has_ten_samples_or_more() -> None:
    counts = {folder.name: len(json.loads((folder / "expected.json").read_text())) for folder in SAMPLES.iterdir()}
    assert set(counts) == set(FORMATS)
    assert min(counts.values()) >= 10


@pytest.mark.parametrize(("format_name", "name", "expected"), CASES)
def test_a_sample_is_read_as_described(format_name: str, name: str, expected: dict[str, Any], scan: ScanPaths) -> None:
    runs, summary = scan(SAMPLES / format_name / name)

    found: dict[str, Any] = {
        "runs": len(runs),
        "calls": summary.spent.calls,
        "answered": summary.spent.calls - sum(run.unanswered for run in runs),
        "errors": sum(run.errors for run in runs),
        "compactions": sum(run.compactions for run in runs),
        "copies": summary.copies,
        "not_understood": summary.not_understood.total,
        "loops": sorted(loop.level for run in runs for loop in run.loops),
    }
    assert found == {key: sorted(value) if key == "loops" else value for key, value in expected.items() if key in found}
    assert list(summary.files) == [format_name]
    assert not summary.problems
    if "refused" in expected:
        assert sum(run.refused for run in runs) == expected["refused"]
    if "tokens" in expected:
        assert summary.spent.tokens == expected["tokens"]
    if "places" in expected:
        assert runs[0].first.endswith(f":{expected['places']['first']}")
    if "cost" in expected:
        assert summary.spent.cost == pytest.approx(expected["cost"])


@pytest.mark.parametrize("format_name", FORMATS)
def test_samples_that_have_nothing_to_do_with_each_other_do_not_change_each_other(format_name: str, scan: ScanPaths) -> None:
    names = json.loads((SAMPLES / format_name / "expected.json").read_text())
    together, summary = scan(SAMPLES / format_name)
    alone = [scan(SAMPLES / format_name / name) for name in sorted(names)]
    assert summary.copies == sum(one.copies for _, one in alone)
    assert sorted((run.spent.calls, run.verdict) for run in together) == sorted(
        (run.spent.calls, run.verdict) for runs, _ in alone for run in runs
    )
