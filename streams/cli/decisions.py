"""`loopwarden decisions`: read the decisions topic."""

import asyncio
from contextlib import aclosing
from typing import Annotated

import typer

from schemas.cloudevents import InvalidEventError, format_time
from schemas.decisions import Decision, Origin
from schemas.settings import Settings
from streams.cli.options import Bootstrap, Json, TopicPrefix, settings_with
from streams.cli.outcomes import FINDINGS
from streams.cli.terminal import printable
from streams.connection import Connection
from streams.gateway.decision_reader import read_decisions

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COLOURS = {"abort": "red", "block": "red", "warn": "yellow", "release": "green"}


@app.command(epilog="Example: loopwarden decisions --follow --json")
def decisions(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on until Ctrl-C")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning/--from-now", help="all that are there, or new ones only")
    ] = True,
    run: Annotated[str | None, typer.Option(metavar="ID", help="only of this run")] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Print the decisions of all partitions, one a line; stops at the end unless --follow is given.

    Exit 1 when a record of the topic cannot be read. No consumer group is used: reading changes nothing.
    """
    if not from_beginning and not follow:
        raise typer.BadParameter("--from-now needs --follow: there is nothing new yet")
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    if asyncio.run(_print(settings, follow=follow, from_beginning=from_beginning, run=run, json=json)):
        raise typer.Exit(FINDINGS)


async def _print(settings: Settings, *, follow: bool, from_beginning: bool, run: str | None, json: bool) -> int:
    unreadable = 0

    def report(origin: Origin, error: InvalidEventError) -> None:
        nonlocal unreadable
        unreadable += 1
        typer.echo(f"loopwarden: {origin}: {printable(str(error))}", err=True)

    found = read_decisions(
        Connection.from_settings(settings), settings.topics, follow=follow, from_beginning=from_beginning, on_invalid=report
    )
    async with aclosing(found):
        async for published in found:
            decision = published.decision
            if run is None or decision.run_id == run:
                typer.echo(decision.model_dump_json(exclude_none=True) if json else _line(decision))
    return unreadable


def _line(decision: Decision) -> str:
    action = typer.style(f"{decision.action:<7}", fg=_COLOURS[decision.action], bold=decision.action == "abort")
    notes = [note for note, holds in (("shadow", decision.mode == "shadow"), ("late", decision.late)) if holds]
    if decision.reason is not None:
        notes.append(decision.reason)
    said = f"{decision.detector} {decision.count}" + (f" ({', '.join(notes)})" if notes else "")
    time = format_time(decision.as_of.time)
    return f"{time}  {action}  {printable(decision.run_id)}  {printable(said)}  {printable(decision.message)}"
