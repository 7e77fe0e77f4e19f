"""`loopwarden publish`: events or lists of tool calls from files to the input topics."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console

from schemas.settings import Settings
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.connection import Connection
from streams.intake.background import in_background
from streams.intake.call_lines import events_of_calls
from streams.intake.event_lines import events_of_lines
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Source(StrEnum):
    """What the lines of a file are."""

    EVENTS = "events"
    CALLS = "calls"


@app.command(no_args_is_help=True, epilog="Example: loopwarden publish --from calls --agent researcher calls.jsonl")
def publish(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="files of JSON lines; - is standard input")],
    source: Annotated[Source, typer.Option("--from", help="what the lines are")] = Source.EVENTS,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="agent id of the calls")] = None,
    run_prefix: Annotated[str, typer.Option(metavar="TEXT", help="put before the run ids of calls")] = "",
    rate: Annotated[float | None, typer.Option(min=0.001, metavar="N", help="events per second; default: no limit")] = None,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Publish events in order and wait until the broker has them all.

    With --from events a line is a CloudEvent in JSON, as on the topics. With --from calls it is a tool call with the keys run,
    seq, tool, args, result, is_error, call_id and ts, and gives two events. The first line that cannot be used ends it with exit
    code 2; the lines before it are published.
    """
    if source is Source.EVENTS and (agent is not None or run_prefix):
        raise typer.BadParameter("--agent and --run-prefix are for --from calls; events are published as they are")
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    for file in files:
        if file != "-":
            Path(file).open("rb").close()  # a name that is wrong is told before anything is published
    events = _events(files, source=source, settings=settings, agent=agent, run_prefix=run_prefix)
    count = asyncio.run(_publish(in_background(events), settings=settings, rate=rate))
    typer.echo(f"{count} event{'' if count == 1 else 's'} published", err=True)


def _events(
    files: list[str], *, source: Source, settings: Settings, agent: str | None, run_prefix: str
) -> Iterator[OutgoingEvent]:
    for file in files:
        name = "stdin" if file == "-" else file
        with _opened(file) as lines:
            if source is Source.EVENTS:
                yield from events_of_lines(lines, name=name, topics=settings.topics, max_event_bytes=settings.max_event_bytes)
            else:
                yield from events_of_calls(
                    lines,
                    name=name,
                    topics=settings.topics,
                    max_event_bytes=settings.max_event_bytes,
                    agent_id=agent,
                    run_prefix=run_prefix,
                )


def _opened(file: str) -> IO[bytes]:
    # Not sys.stdin's own buffer: Python could not shut down while a thread waits in it.
    return open(sys.stdin.fileno(), "rb", closefd=False) if file == "-" else Path(file).open("rb")


async def _publish(events: AsyncIterator[OutgoingEvent], *, settings: Settings, rate: float | None) -> int:
    # On a pipe the console shows no status.
    with Console(stderr=True).status("publishing") as status:
        return await publish_events(
            Connection.from_settings(settings),
            events,
            topics=settings.topics,
            rate=rate,
            max_event_bytes=settings.max_event_bytes,
            on_acknowledged=lambda count: None if count % 100 else status.update(f"publishing: {count} events"),
        )
