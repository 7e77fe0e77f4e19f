import io
from collections.abc import Callable

from rich.console import Console

from streams.reports.scan_report import LoopReport, RunReport, ScanSummary, Spending
from streams.reports.scan_terminal import ScanTerminal


def printed(summary: ScanSummary, *runs: RunReport) -> str:
    file = io.StringIO()
    terminal = ScanTerminal(Console(file=file, width=60, highlight=False, markup=False))
    for run in runs:
        terminal.run(run)
    terminal.summary(summary)
    return file.getvalue()


def test_a_loop_is_told_with_its_places_and_what_it_took(
    run: Callable[..., RunReport], summary: Callable[..., ScanSummary]
) -> None:
    text = printed(summary(run()), run())
    assert "stopped run-1  31 calls, 5,000 tokens, $1.50" in text
    assert "  refused  generic_repeat 20: 30 calls of exec" in text
    assert "    from log.jsonl:3 to 60" in text
    assert "    first verdict at log.jsonl:22, critical at log.jsonl:42; after it 20 calls, 1,234 tokens, $0.0500" in text
    assert "1 run, 31 calls, 5,000 tokens, $1.50: 1 loop found; 0 runs healthy, 1 would have been stopped." in text
    assert "After the first verdict of each run: 20 calls, 1,234 tokens, $0.0500." in text


def test_only_reported_loops_and_warnings_are_told_as_such(
    run: Callable[..., RunReport], loop: Callable[..., LoopReport], summary: Callable[..., ScanSummary]
) -> None:
    found = run(verdict="warned", loops=(loop(level="warning", action="warn", shadow=True, critical_at=None),))
    text = printed(summary(found), found)
    assert "warned (shadow: only reported)" in text
    assert "1 loop found (1 of them only warned about)" in text


def test_many_healthy_runs_take_little_room(run: Callable[..., RunReport], summary: Callable[..., ScanSummary]) -> None:
    runs = [run(run_id=f"well-{n}", verdict="healthy", loops=(), spent=Spending(calls=1)) for n in range(100)]
    text = printed(summary(*runs), *runs)
    assert "... and 80 more healthy runs" in text
    assert len(text.splitlines()) < 30
    assert "no loops found; 100 runs healthy." in text


def test_lines_that_were_not_understood_are_counted_with_their_places(summary: Callable[..., ScanSummary]) -> None:
    totals = summary()
    for line in range(9):
        totals.not_understood.add(f"log.jsonl:{line}", "not JSON")
    text = printed(totals)
    assert "Not understood: 9 lines" in text
    assert "9  not JSON: log.jsonl:0, log.jsonl:1, log.jsonl:2, log.jsonl:3, log.jsonl:4, ..." in text


def test_text_of_logs_does_not_reach_the_terminal_as_codes(
    run: Callable[..., RunReport], loop: Callable[..., LoopReport], summary: Callable[..., ScanSummary], hostile: str
) -> None:
    bad = run(run_id=hostile, loops=(loop(message=hostile, tools=(hostile,), first=hostile, verdict_at=hostile),))
    totals = summary(bad)
    totals.not_understood.add(hostile, hostile)
    text = printed(totals, bad)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_reasons_have_an_end(summary: Callable[..., ScanSummary]) -> None:
    totals = summary()
    for number in range(1000):
        totals.not_understood.add("log:1", f"reason {number}")
    assert totals.not_understood.total == 1000
    assert len(totals.not_understood.counts) == 101
