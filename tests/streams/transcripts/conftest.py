"""Items and scans for tests of logs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.policy import PolicyDocument
from streams.reports.scan_report import RunReport, ScanSummary
from streams.transcripts.items import Item
from streams.transcripts.reading import Readings, read_sources
from streams.transcripts.scanning import Scan
from streams.transcripts.sources import expand

SAMPLES = Path(__file__).parent / "samples"

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]
ReadPaths = Callable[..., tuple[list[Item], Readings]]


@pytest.fixture(scope="session")
def detectors_on() -> PolicyDocument:
    """The policy of `loopwarden scan` without a file."""
    return PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})


@pytest.fixture
def scan(detectors_on: PolicyDocument) -> ScanPaths:
    """Scan files: `runs, summary = scan(path, turns=True)`."""

    def run(*paths: Path, turns: bool = False, timelines: bool = False) -> tuple[list[RunReport], ScanSummary]:
        summary = ScanSummary()
        work = Scan(detectors_on, turns=turns, timelines=timelines)
        return list(work.run(expand(str(path) for path in paths), summary=summary)), summary

    return run


@pytest.fixture
def read() -> ReadPaths:
    """Read files: `items, readings = read(path)`."""

    def run(*paths: Path | str, format_name: str | None = None) -> tuple[list[Item], Readings]:
        readings = Readings()
        return list(read_sources(expand(map(str, paths)), readings=readings, format_name=format_name)), readings

    return run


def sample_files() -> list[Path]:
    """All files of all samples."""
    return sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name != "expected.json")
