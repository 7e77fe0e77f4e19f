"""The report of a scan for programs: JSON lines."""

from dataclasses import asdict
from typing import Any

from schemas import json_text
from schemas.cloudevents import format_time
from streams.reports.scan_report import RunReport, ScanSummary


def run_line(run: RunReport) -> str:
    """Return a run as one line of JSON with `kind` `run`; its timeline is not in it."""
    fields = asdict(run)
    del fields["timeline"]
    for name in ("started", "ended"):
        fields[name] = None if fields[name] is None else format_time(fields[name])
    return _line({"kind": "run", **fields})


def summary_line(summary: ScanSummary) -> str:
    """Return the totals as one line of JSON with `kind` `summary`."""
    fields = asdict(summary)
    fields["not_understood"] = {
        "lines": summary.not_understood.total,
        "reasons": [
            {"reason": reason, "lines": count, "places": summary.not_understood.examples[reason]}
            for reason, count in summary.not_understood.counts.items()
        ],
    }
    return _line({"kind": "summary", **fields})


def _line(fields: dict[str, Any]) -> str:
    return json_text.dumps(fields).decode()
