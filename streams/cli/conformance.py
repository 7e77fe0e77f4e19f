"""`loopwarden conformance`: plays vector files and prints every difference."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
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
from streams.conformance.through_gate import play_through_gate
from streams.conformance.vectors import Difference, Vector, VectorError, read_vectors
from streams.policies_topic import PolicyNotInForceError
from streams.processor.worker_process import WorkerProcessError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Through(StrEnum):
    """What the vectors are played through."""

    ENGINE = "engine"
    BROKER = "broker"
    GATE = "gate"


@app.command(epilog="Example: loopwarden conformance --through broker tests/vectors/*.jsonl")
def conformance(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="vector files (JSON lines)")],
    through: Annotated[
        Through, typer.Option(help="the engine alone; a broker and a worker; or these and a publisher and a gate")
    ] = Through.ENGINE,
    bootstrap: Bootstrap = None,
) -> None:
    """Play recorded scenarios, raw and hash-only, and print every verdict that is not the recorded one.

    Through broker or gate: an embedded broker is started unless --bootstrap names another. Through the gate every call is asked
    about before it is made, so the scenarios step together; all that ship take some minutes. Exit code 1 when there are
    differences.
    """
    try:
        vectors = [vector for path in files for vector in read_vectors(path)]
        differences = _on_engine(vectors) if through is Through.ENGINE else _through_broker(vectors, through, bootstrap)
    except (PolicyNotInForceError, VectorError, WorkerProcessError) as error:
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


def _through_broker(vectors: list[Vector], through: Through, bootstrap: str | None) -> list[Difference]:
    play = play_through_gate if through is Through.GATE else play_through_broker
    console = Console(stderr=True)
    with ExitStack() as stack:
        say: Callable[[str], None] = lambda _: None  # noqa: E731  (nothing is shown on a pipe)
        if console.is_terminal:
            say = stack.enter_context(console.status("starting")).update
        if bootstrap is not None:
            settings = settings_with(bootstrap_servers=bootstrap)
        else:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
            settings = settings_with(
                bootstrap_servers=servers, idempotent_producer=False, session_timeout=2.0, heartbeat_interval=0.5
            )
        return asyncio.run(play(vectors, bootstrap_servers=settings.bootstrap_servers, settings=settings, on_phase=say))
