"""`loopwarden scan`: judges the runs of logs that are there already, without Kafka."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from schemas.policy import PolicyDocument, read_policy
from streams.cli.late_progress import LateProgress
from streams.cli.log_options import FormatName, Turns, checked_format
from streams.cli.options import Json
from streams.cli.outcomes import FINDINGS, WRONG_USE
from streams.cli.terminal import printable
from streams.reports.scan_html import ScanHtml
from streams.reports.scan_json import run_line, summary_line
from streams.reports.scan_report import ScanSummary
from streams.reports.scan_terminal import ScanTerminal
from streams.transcripts.scanning import Scan
from streams.transcripts.sources import Source, expand


class Level(StrEnum):
    """From which level on a loop counts for the exit code."""

    WARNING = "warning"
    CRITICAL = "critical"


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(no_args_is_help=True, epilog="Example: loopwarden scan ~/.claude/projects --html loops.html")
def scan(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="files, folders and globs; - is standard input")],
    policy: Annotated[Path | None, typer.Option("--policy", help="policy file, JSON5; default: all detectors")] = None,
    format_name: FormatName = None,
    turns: Turns = False,
    level: Annotated[
        Level, typer.Option(help="which loops make the exit code 1: all, or those that would be stopped")
    ] = Level.WARNING,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write a report for a browser too")] = None,
    json: Json = False,
) -> None:
    """Find loops in logs of agents: which runs loop, from where to where, and what that took.

    Each file's format is found by its content. The detectors are on, also where the policy file leaves `enabled` unset. Exit
    code 1 when loops were found, 0 when none, 2 when a file could not be read (the others are reported all the same). Lines
    that are not understood are counted and told.
    """
    document = _policy(policy)
    checked_format(format_name)
    sources = list(expand(paths))
    summary = ScanSummary()
    drawn = ScanHtml() if html is not None else None
    if html is not None:
        _check_place(html)
    terminal = ScanTerminal(Console(highlight=False, markup=False))
    work = Scan(document, turns=turns, timelines=drawn is not None, format_name=format_name)
    with LateProgress(sum(source.size for source in sources if isinstance(source, Source)), "scanning") as progress:
        for run in work.run(sources, summary=summary, meter=progress.advance, on_problem=_tell):
            progress.stop()
            if drawn is not None:
                drawn.run(run)
            if json:
                sys.stdout.write(run_line(run) + "\n")
            else:
                terminal.run(run)
    if not summary.files and not summary.problems:
        _tell(f"{', '.join(paths)}: no logs in a known format")
        raise typer.Exit(WRONG_USE)
    if json:
        sys.stdout.write(summary_line(summary) + "\n")
    elif summary.files:
        terminal.summary(summary)
    if drawn is not None and html is not None:
        with html.open("w", encoding="utf-8", errors="backslashreplace") as file:
            drawn.write(file, summary)
        typer.echo(f"Report: {html}", err=True)
    if summary.problems:
        raise typer.Exit(WRONG_USE)
    if summary.loops - (summary.warnings if level is Level.CRITICAL else 0):
        raise typer.Exit(FINDINGS)


def _policy(file: Path | None) -> PolicyDocument:
    mapping: dict[str, Any] = {} if file is None else read_policy(file).to_mapping()
    mapping.setdefault("tools", {}).setdefault("loopDetection", {}).setdefault("enabled", True)
    return PolicyDocument.from_mapping(mapping)


def _check_place(file: Path) -> None:
    """Raise `OSError` for a file that cannot be written: before the work, not after it."""
    existed = file.exists()
    file.open("ab").close()
    if not existed:
        file.unlink()


def _tell(problem: str) -> None:
    typer.echo(f"loopwarden: {printable(problem)}", err=True)
