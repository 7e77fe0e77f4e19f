"""`loopwarden demo`: shows looping runs being caught, on an embedded broker."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streams.broker import EmbeddedBroker
from streams.cli.options import settings_with
from streams.cli.outcomes import WRONG_USE
from streams.demo.display import Display
from streams.demo.playing import play
from streams.demo.recordings import check_files, events_of_files, recorded_events
from streams.processor.worker_process import WorkerProcessError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

#: Calls per second that a person can follow; the recorded runs then take 14 s.
_PACE = 8.0


@app.command(epilog="Example: loopwarden demo my-calls.jsonl")
def demo(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="your own event lines or call lists, instead of the recorded runs"),
    ] = None,
    pace: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="calls per second, 0 is at once; default: 8, and at once for your own files"),
    ] = None,
) -> None:
    """Play runs through an embedded broker and a worker, and show the verdicts.

    Without files, seven recorded runs: five that loop, and two healthy ones beside them. A file has CloudEvents, one a line, when
    its first line has specversion, else tool calls as `loopwarden publish --from calls` takes them; the calls of your own files
    are only listed when --pace is given. Nothing is kept.
    """
    if files:
        check_files(files)
    pace = pace if pace is not None else 0.0 if files else _PACE
    display = Display()
    display.say("Starting a broker in memory and a worker ...")
    try:
        with EmbeddedBroker() as broker:
            settings = settings_with(
                bootstrap_servers=broker.bootstrap_servers,
                topic_prefix="",
                group="loopwarden-demo",
                idempotent_producer=False,
                session_timeout=2.0,
                heartbeat_interval=0.5,
            )
            events = events_of_files(files, settings) if files else recorded_events(settings)
            show_calls = not files or pace > 0
            tally = asyncio.run(play(events, settings=settings, display=display, pace=pace, show_calls=show_calls))
    except WorkerProcessError as error:
        typer.echo(f"loopwarden: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    display.summary(tally)
    display.how_to_go_on()
