"""The report of a scan for people at a terminal."""

from rich.console import Console
from rich.text import Text

from streams.cli.terminal import printable
from streams.reports.scan_report import LoopReport, RunReport, ScanSummary
from streams.reports.wording import consequence, counted, detectors, files_of, loops_found, span, spending

_STYLES = {"healthy": "green", "warned": "yellow", "stopped": "bold red"}
_ACTION_STYLES = {"warn": "yellow", "block": "bold red", "abort": "bold red"}

#: Runs listed one by one; those with loops first come first and are all listed.
_MAX_HEALTHY = 20


class ScanTerminal:
    """Prints runs as they are reported, those with loops in full and the first healthy ones in a line, and a summary."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._healthy = 0

    def run(self, run: RunReport) -> None:
        """Print a run."""
        if run.verdict == "healthy":
            self._healthy += 1
            if self._healthy > _MAX_HEALTHY:
                return
        took = spending(run.spent) + (f"; {run.refused:,} refused" if run.refused else "")
        head = Text.assemble((f"{run.verdict:<8}", _STYLES[run.verdict]), printable(run.run_id), (f"  {took}", "dim"))
        self._print(head)
        for loop in run.loops:
            self._loop(loop)

    def summary(self, summary: ScanSummary) -> None:
        """Print the totals, and which lines were not understood."""
        hidden = self._healthy - _MAX_HEALTHY
        if hidden > 0:
            self._print(Text(f"... and {counted(hidden, 'more healthy run')}", style="dim"))
        if summary.runs:
            self._console.print()
        self._not_understood(summary)
        if files := files_of(summary.files):
            left_out = f"; {counted(summary.left_out, 'other file')} left out" if summary.left_out else ""
            self._print(Text(f"Read: {files}{left_out}.", style="dim"))
        if summary.copies:
            self._print(
                Text(f"{counted(summary.copies, 'entry', 'entries')} of resumed or copied logs counted once.", style="dim")
            )
        self._print(Text(_totals(summary), style="bold"))
        if summary.loops:
            self._print(Text(f"After the first verdict of each run: {spending(summary.after)}."))

    def _loop(self, loop: LoopReport) -> None:
        tools = ", ".join(printable(tool) for tool in loop.tools) or "-"
        self._print(
            Text.assemble(
                "  ",
                (consequence(loop), _ACTION_STYLES[loop.action]),
                f"  {detectors(loop)}: {counted(loop.calls, 'call')} of {tools}",
            )
        )
        self._print(Text(f"    {printable(loop.message)}"))
        self._print(Text(f"    from {printable(span(loop.first, loop.last))}"))
        place = f"    first verdict at {printable(loop.verdict_at)}"
        if loop.critical_at is not None and loop.critical_at != loop.verdict_at:
            place += f", critical at {printable(loop.critical_at)}"
        self._print(Text(f"{place}; after it {spending(loop.after)}"))

    def _not_understood(self, summary: ScanSummary) -> None:
        lines = summary.not_understood
        if not lines.total:
            return
        self._print(Text(f"Not understood: {counted(lines.total, 'line')}", style="yellow"))
        for reason, count in sorted(lines.counts.items(), key=lambda entry: -entry[1]):
            places = ", ".join(printable(place) for place in lines.examples[reason])
            more = ", ..." if count > len(lines.examples[reason]) else ""
            self._print(Text(f"  {count:>6,}  {printable(reason)}: {places}{more}"))
        self._console.print()

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _totals(summary: ScanSummary) -> str:
    parts = [f"{counted(summary.healthy, 'run')} healthy"]
    if summary.warned:
        parts.append(f"{summary.warned:,} warned about")
    if summary.stopped:
        parts.append(f"{summary.stopped:,} would have been stopped")
    whole = f"{counted(summary.runs, 'run')}, {spending(summary.spent)}"
    return f"{whole}: {loops_found(summary)}; {', '.join(parts)}."
