import io
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from streams.reports import scan_html
from streams.reports.scan_html import ScanHtml
from streams.reports.scan_report import LoopReport, RunReport, ScanSummary
from streams.reports.timeline import CallMark

Make = Callable[..., RunReport]


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in the right order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def page_of(summary: ScanSummary, *runs: RunReport) -> str:
    report = ScanHtml()
    for run in runs:
        report.run(run)
    file = io.StringIO()
    report.write(file, summary)
    return file.getvalue()


@pytest.fixture
def healthy(run: Make) -> Make:
    return lambda **given: run(**({"verdict": "healthy", "loops": ()} | given))


def test_a_page_needs_nothing_from_elsewhere_and_may_run_nothing(
    run: Make, healthy: Make, summary: Callable[..., ScanSummary]
) -> None:
    runs = [run(), healthy(run_id="well")]
    text = page_of(summary(*runs, problems=["x.json: empty"]), *runs)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "action")]
    assert not re.search(r"url\(|@import|https?:", text)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_hostile_text_is_shown_and_does_nothing(
    run: Make, loop: Callable[..., LoopReport], summary: Callable[..., ScanSummary], hostile: str
) -> None:
    marks = (CallMark(1, hostile, 0, hostile, "a", hostile, "error", "h"), CallMark(2, hostile, 0, hostile, "a", hostile))
    found = loop(message=hostile, tools=(hostile,), detectors={hostile: 3}, first=hostile, last=hostile, verdict_at=hostile)
    bad = run(run_id=hostile, agent_id=hostile, parent_run_id=hostile, first=hostile, loops=(found,), timeline=marks)
    totals = summary(bad, problems=[hostile])
    totals.not_understood.add(hostile, hostile)
    page = Page(page_of(totals, bad))
    assert "script" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.said.count("<script>alert('x')</script>") >= 8
    assert "\x1b" not in page.said
    assert "\u202e" not in page.said


def test_a_page_is_made_for_paper_and_for_the_dark(run: Make, summary: Callable[..., ScanSummary]) -> None:
    text = page_of(summary(run()), run())
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    assert 'lang="en"' in text


def test_runs_with_loops_come_first_with_what_was_found(run: Make, healthy: Make, summary: Callable[..., ScanSummary]) -> None:
    runs = [healthy(run_id="well"), run(run_id="stuck")]
    said = Page(page_of(summary(*runs), *runs)).said
    assert said.index("stuck") < said.index("Healthy: 1 run") < said.index("well")
    for piece in (
        "Refused",
        "log.jsonl:3 to 60",
        "critical at log.jsonl:42",
        "20 calls, 1,234 tokens, $0.0500",
        "generic_repeat 20",
    ):
        assert piece in said


def test_a_timeline_tells_calls_apart_without_colours_too(run: Make, summary: Callable[..., ScanSummary]) -> None:
    page = Page(page_of(summary(run()), run()))
    classes = [value for name, value in page.attributes if name == "class"]
    assert classes.count("s0 same") == 3  # the first has no outcome before it
    assert {"s0 error told", "unknown", "blocked", "warn", "stop", "compaction", "prompt", "gap"} <= set(classes)
    assert page.said.count("A") >= 5
    titles = [value or "" for name, value in page.attributes if name == "title"]
    assert "6. exec command=ls\nerror\nlog.jsonl:6, -" in titles
    assert any("block (shadow: only reported): generic_repeat 20" in title for title in titles)
    assert any("9,000 tokens before, 100 after" in title for title in titles)


def test_a_long_run_is_shortened_where_nothing_comes_again(run: Make, summary: Callable[..., ScanSummary]) -> None:
    marks = [
        CallMark(
            n, f"log:{n}", n, "exec", "same" if 4000 <= n < 4030 else f"once {n}", "", "error" if n % 100 == 0 else "result", "h"
        )
        for n in range(1, 10_001)
    ]
    text = page_of(summary(run()), run(timeline=tuple(marks)))
    said = Page(text).said
    assert "… 3,979 calls made once, 39 errors …" in said
    assert said.count("A") >= 30
    assert len(text) < 100_000


def test_a_report_has_an_end(
    run: Make, healthy: Make, summary: Callable[..., ScanSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_html, "_MAX_MARKS", 100)
    monkeypatch.setattr(scan_html, "_MAX_LISTED", 5)
    runs = [*(run(run_id=f"stuck-{n}") for n in range(20)), *(healthy(run_id=f"well-{n}") for n in range(20))]
    said = Page(page_of(summary(*runs), *runs)).said
    assert all(f"stuck-{n}" in said for n in range(20))
    assert "No timeline: the report is full." in said
    assert "And 15 more healthy runs." in said


def test_a_scan_of_nothing_is_a_page_too(summary: Callable[..., ScanSummary]) -> None:
    assert "0 loops" not in Page(page_of(replace(summary(), files={}))).tags
