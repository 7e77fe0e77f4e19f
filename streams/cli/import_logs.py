"""`loopwarden import`: logs as event lines, or published."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer

from schemas.settings import Settings
from streams.cli.late_progress import LateProgress
from streams.cli.log_options import FormatName, Turns, checked_format
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.cli.outcomes import WRONG_USE
from streams.cli.terminal import printable
from streams.connection import Connection
from streams.intake.background import in_background
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.reports.wording import counted
from streams.transcripts.importing import Imported, events_of_items
from streams.transcripts.reading import Readings, read_sources
from streams.transcripts.sources import Source, expand
from streams.transcripts.turns import settle_retries, split_turns

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Content(StrEnum):
    """What events say about what calls were given and answered."""

    HASHES = "hashes"
    FULL = "full"


@app.command("import", no_args_is_help=True, epilog="Example: loopwarden import ~/.codex/sessions --to events.jsonl")
def import_logs(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="files, folders and globs; - is standard input")],
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="where the event lines go; - is standard output")] = "-",
    publish: Annotated[bool, typer.Option("--publish", help="publish to the input topics instead")] = False,
    content: Annotated[
        Content, typer.Option(help="hashes: arguments and results stay here; full: they are in the events")
    ] = Content.HASHES,
    format_name: FormatName = None,
    turns: Turns = False,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="agent id of runs whose log names none")] = None,
    run_prefix: Annotated[str, typer.Option(metavar="TEXT", help="put before the run ids")] = "",
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Make events of logs, one CloudEvent a line, or publish them; sequences count from 1 in each run.

    Formats are found as `loopwarden scan` finds them. Importing a log twice gives the same events twice, which workers notice.
    Exit code 2 when a file could not be read; lines that are not understood are counted on stderr.
    """
    if publish and to != "-":
        raise typer.BadParameter("--to and --publish exclude each other")
    checked_format(format_name)
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    readings, imported = Readings(), Imported()
    sources = list(expand(paths))
    with ExitStack() as stack:
        target = None if publish else _opened(to, stack)
        total = sum(source.size for source in sources if isinstance(source, Source))
        progress = stack.enter_context(LateProgress(total, "importing"))
        items = settle_retries(read_sources(sources, readings=readings, format_name=format_name, meter=progress.advance))
        events = events_of_items(
            split_turns(items) if turns else items,
            topics=settings.topics,
            max_event_bytes=settings.max_event_bytes,
            imported=imported,
            content=content is Content.FULL,
            run_prefix=run_prefix,
            agent_id=agent,
        )
        if target is None:
            asyncio.run(_publish(events, settings))
        else:
            for event in events:
                target.write(event.value + b"\n")
            target.flush()
    _report(imported, readings, published=publish)
    if readings.problems or not readings.files:
        if not readings.problems:
            _tell(f"{', '.join(paths)}: no logs in a known format")
        raise typer.Exit(WRONG_USE)


def _opened(to: str, stack: ExitStack) -> IO[bytes]:
    return sys.stdout.buffer if to == "-" else stack.enter_context(Path(to).open("wb"))


async def _publish(events: Iterator[OutgoingEvent], settings: Settings) -> None:
    await publish_events(
        Connection.from_settings(settings),
        in_background(events),
        topics=settings.topics,
        max_event_bytes=settings.max_event_bytes,
    )


def _report(imported: Imported, readings: Readings, *, published: bool) -> None:
    for problem in readings.problems:
        _tell(problem)
    for reason, count in imported.not_understood.counts.items():
        places = ", ".join(imported.not_understood.examples[reason])
        _tell(f"not understood: {counted(count, 'line')}: {reason} ({places}{', ...' if count > 5 else ''})")
    done = "published" if published else "written"
    notes = [f"{counted(imported.events, 'event')} of {counted(len(imported.runs), 'run')} {done}"]
    if imported.copies:
        notes.append(f"{counted(imported.copies, 'copied entry', 'copied entries')} left out")
    if imported.reduced:
        notes.append(f"{counted(imported.reduced, 'event')} too large with content, sent with hashes")
    if readings.left_out:
        notes.append(f"{counted(readings.left_out, 'other file')} left out")
    typer.echo("; ".join(notes), err=True)


def _tell(problem: str) -> None:
    typer.echo(f"loopwarden: {printable(problem)}", err=True)
