"""`loopwarden conformance`: plays vector files and prints every difference."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from streams.broker import EmbeddedBroker
from streams.cli.options import Bootstrap, settings_with
from streams.cli.outcomes import FINDINGS, WRONG_USE
from streams.conformance.through_broker import play_through_broker
from streams.conformance.through_engine import play_on_engine
from streams.conformance.vectors import Difference, Vector, VectorError, read_vectors
from streams.processor.worker_process import WorkerProcessError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Through(StrEnum):
    """What the vectors are played through."""

    ENGINE = "engine"
    BROKER = "broker"


@app.command(epilog="Example: loopwarden conformance --through broker tests/vectors/*.jsonl")
def conformance(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="vector files (JSON lines)")],
    through: Annotated[Through, typer.Option(help="the engine alone, or a broker and a worker")] = Through.ENGINE,
    bootstrap: Bootstrap = None,
) -> None:
    """Play recorded scenarios, raw and hash-only, and print every verdict that is not the recorded one.

    Through the broker: an embedded one is started unless --bootstrap names another. Exit code 1 when there are differences.
    """
    try:
        vectors = [vector for path in files for vector in read_vectors(path)]
        differences = _on_engine(vectors) if through is Through.ENGINE else _through_broker(vectors, bootstrap)
    except (VectorError, WorkerProcessError) as error:
        typer.echo(f"loopwarden: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    for difference in differences:
        typer.echo(str(difference))
    steps = sum(len(vector.steps) for vector in vectors)
    typer.echo(f"{len(vectors)} vectors, {steps} steps, raw and hash-only: {len(differences)} differences")
    if differences:
        raise typer.Exit(FINDINGS)


def _on_engine(vectors: list[Vector]) -> list[Difference]:
    console = Console(stderr=True)
    watched = track(vectors, "playing", console=console, transient=True, disable=not console.is_terminal)
    return [found for vector in watched for hashed in (False, True) for found in play_on_engine(vector, hashed=hashed)]


def _through_broker(vectors: list[Vector], bootstrap: str | None) -> list[Difference]:
    console = Console(stderr=True)
    say = console.print if console.is_terminal else lambda _: None
    if bootstrap is not None:
        settings = settings_with(bootstrap_servers=bootstrap)
        return asyncio.run(play_through_broker(vectors, bootstrap_servers=bootstrap, settings=settings, on_phase=say))
    with EmbeddedBroker() as broker:
        settings = settings_with(idempotent_producer=False, session_timeout=2.0, heartbeat_interval=0.5)
        servers = broker.bootstrap_servers
        return asyncio.run(play_through_broker(vectors, bootstrap_servers=servers, settings=settings, on_phase=say))
