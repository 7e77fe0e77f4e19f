"""The report of a scan as one HTML file that needs nothing else: no script, no address, all text escaped."""

from typing import IO

from streams.reports.markup import Markup, element, joined
from streams.reports.report_style import style_sheet
from streams.reports.scan_report import LoopReport, RunReport, ScanSummary
from streams.reports.timeline_html import legend, timeline
from streams.reports.wording import consequence, counted, detectors, files_of, moment, money, span, spending

#: Marks drawn in one report, some 50 MB of HTML; runs beyond it are listed without their timeline.
_MAX_MARKS = 300_000

#: Healthy runs drawn, and listed.
_MAX_DRAWN = 50
_MAX_LISTED = 2_000

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class ScanHtml:
    """Takes the runs of a scan and then writes the report: runs with loops first."""

    def __init__(self) -> None:
        self._with_loops: list[Markup] = []
        self._healthy: list[Markup] = []
        self._rows: list[Markup] = []
        self._marks = 0
        self._healthy_count = 0

    def run(self, run: RunReport) -> None:
        """Take in a run."""
        drawn = self._marks + len(run.timeline) <= _MAX_MARKS
        if run.verdict != "healthy":
            self._marks += len(run.timeline) if drawn else 0
            self._with_loops.append(_section(run, drawn=drawn))
            return
        self._healthy_count += 1
        if drawn and run.timeline and len(self._healthy) < _MAX_DRAWN:
            self._marks += len(run.timeline)
            self._healthy.append(_section(run, drawn=True))
        elif len(self._rows) < _MAX_LISTED:
            self._rows.append(_row(run))

    def write(self, file: IO[str], summary: ScanSummary) -> None:
        """Write the whole report."""
        title = f"Loopwarden: {counted(summary.loops, 'loop')} in {counted(summary.runs, 'run')}"
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            element("style", Markup(style_sheet())),
        )
        file.write(f'<!doctype html>\n<html lang="en">{head}<body>\n')
        file.write(_head(summary))
        if self._with_loops:
            file.write(element("h2", "Runs with loops"))
            for section in self._with_loops:
                file.write(section)
        if self._healthy_count:
            file.write(f"\n<details{'' if self._with_loops else ' open'}>")
            file.write(element("summary", f"Healthy: {counted(self._healthy_count, 'run')}"))
            for section in self._healthy:
                file.write(section)
            if self._rows:
                columns = ("run", "where", "spent")
                head_row = element("tr", *(element("th", name, scope="col") for name in columns))
                file.write(element("table", element("thead", head_row), element("tbody", *self._rows)))
            left = self._healthy_count - len(self._healthy) - len(self._rows)
            if left:
                file.write(element("p", f"And {counted(left, 'more healthy run')}.", class_="soft"))
            file.write("</details>\n")
        file.write(_tail(summary))
        file.write("</body></html>\n")


def _head(summary: ScanSummary) -> Markup:
    totals = [("runs", f"{summary.runs:,}"), ("healthy", f"{summary.healthy:,}"), ("warned about", f"{summary.warned:,}")]
    totals += [("would have been stopped", f"{summary.stopped:,}"), ("loops", f"{summary.loops:,}")]
    totals += [("calls", f"{summary.spent.calls:,}")]
    if summary.loops:
        totals.append(("calls after the first verdicts", f"{summary.after.calls:,}"))
        if summary.after.tokens is not None:
            totals.append(("tokens after them", f"{summary.after.tokens:,}"))
        if summary.after.cost is not None:
            totals.append(("spent after them", money(summary.after.cost)))
    cards = element("ul", *(element("li", element("b", value), name) for name, value in totals), class_="totals")
    return joined(
        element("h1", "Loops in agent runs"),
        element("p", f"Read: {files_of(summary.files) or 'nothing'}. Policy {summary.policy_version}.", class_="soft"),
        cards,
        element("details", element("summary", "How to read the timelines"), legend(), open=summary.runs <= 20),
    )


def _section(run: RunReport, *, drawn: bool) -> Markup:
    facts = [spending(run.spent)]
    facts += [counted(number, thing) for number, thing in ((run.errors, "error"), (run.compactions, "compaction")) if number]
    if run.refused:
        facts.append(f"{run.refused:,} refused")
    if run.unanswered:
        facts.append(f"{run.unanswered:,} without outcome")
    if run.started is not None:
        facts.append(f"{moment(run.started)} to {moment(run.ended)} UTC")
    whose = [f"{name} {value}" for name, value in (("agent", run.agent_id), ("below", run.parent_run_id)) if value]
    return element(
        "section",
        element("header", element("span", run.verdict, class_=f"badge {run.verdict}"), element("h3", run.run_id)),
        element("p", "; ".join([*facts, *whose]), class_="soft"),
        element("p", element("code", span(run.first, run.last)), class_="soft"),
        *(_loop(loop) for loop in run.loops),
        timeline(run.timeline) if drawn and run.timeline else element("p", "No timeline: the report is full.", class_="soft"),
        class_="run",
    )


def _loop(loop: LoopReport) -> Markup:
    critical = ""
    if loop.critical_at is not None and loop.critical_at != loop.verdict_at:
        critical = f", critical at {loop.critical_at}"
    return element(
        "div",
        element("p", element("b", consequence(loop).capitalize()), f": {loop.message}"),
        element(
            "p",
            f"{detectors(loop)}; {counted(loop.calls, 'call')} of {', '.join(loop.tools) or 'any tool'} from ",
            element("code", span(loop.first, loop.last)),
            f"; first verdict at {loop.verdict_at}{critical}; after it {spending(loop.after)}.",
            class_="soft",
        ),
        class_=f"loop {loop.level}",
    )


def _row(run: RunReport) -> Markup:
    return element("tr", element("td", run.run_id), element("td", span(run.first, run.last)), element("td", spending(run.spent)))


def _tail(summary: ScanSummary) -> Markup:
    parts = []
    if summary.problems:
        parts.append(element("h2", "Files that could not be read"))
        parts.append(element("ul", *(element("li", problem) for problem in summary.problems[:200])))
    if summary.not_understood.total:
        rows = [
            element(
                "tr",
                element("td", reason),
                element("td", f"{count:,}", class_="number"),
                element("td", ", ".join(summary.not_understood.examples[reason])),
            )
            for reason, count in summary.not_understood.counts.items()
        ]
        names = element("tr", *(element("th", name, scope="col") for name in ("reason", "lines", "the first at")))
        parts.append(element("h2", f"Not understood: {counted(summary.not_understood.total, 'line')}"))
        parts.append(element("table", element("thead", names), element("tbody", *rows)))
    return joined(*parts)
