"""Scan logs: read them, judge every run, and report."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from schemas.policy import PolicyDocument
from streams.reports.scan_report import RunReport, ScanSummary
from streams.transcripts.items import Copied, NotUnderstood
from streams.transcripts.judging import Judge, NotJudgedError
from streams.transcripts.reading import Readings, read_sources
from streams.transcripts.records import Meter
from streams.transcripts.sources import Source, SourceError
from streams.transcripts.turns import settle_retries, split_turns


@dataclass(slots=True)
class Scan:
    """Scans sources once; `summary` is complete when all reports have been taken.

    `turns`: each turn is a run of its own. `timelines`: reports can be drawn. `format_name`: see `reading.read_sources`.
    """

    policy: PolicyDocument
    turns: bool = False
    timelines: bool = False
    format_name: str | None = None

    def run(
        self,
        sources: Iterable[Source | SourceError],
        *,
        summary: ScanSummary,
        meter: Meter = lambda count: None,
        on_problem: Callable[[str], None] = lambda text: None,
    ) -> Iterator[RunReport]:
        """Yield the report of each run in the order in which they began. `on_problem` is told each wrong file."""
        readings = Readings()
        judge = Judge(self.policy, timelines=self.timelines)
        format_name = ""

        def begin(_file: str, name: str) -> None:
            nonlocal format_name
            format_name = name

        items = read_sources(sources, readings=readings, format_name=self.format_name, meter=meter, on_file=begin)
        settled = settle_retries(items)
        told = 0
        for item in split_turns(settled) if self.turns else settled:
            for problem in readings.problems[told:]:
                on_problem(problem)
            told = len(readings.problems)
            if isinstance(item, NotUnderstood):
                summary.not_understood.add(str(item.place), item.reason)
            elif isinstance(item, Copied):
                summary.copies += 1
            else:
                try:
                    judge.take(item, format_name=format_name)
                except NotJudgedError as error:
                    summary.not_understood.add(str(item.place), str(error))
        for problem in readings.problems[told:]:
            on_problem(problem)
        summary.files = dict(readings.files)
        summary.left_out = readings.left_out
        summary.problems = readings.problems
        summary.copies += judge.copies
        summary.policy_version = self.policy.version
        for report in judge.reports():
            summary.add(report)
            yield report
