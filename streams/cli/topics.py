"""`loopwarden topics`: create the topics, check them."""

import asyncio
from typing import Annotated

import typer

from streams import topics_admin
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.cli.outcomes import FINDINGS
from streams.connection import Connection

Group = Annotated[str | None, typer.Option("--group", help="group of the workers, for their changelog [env: LOOPWARDEN_GROUP]")]

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback(epilog="Example: loopwarden topics create --partitions 12 --replication-factor 3")
def topics() -> None:
    """Create the topics and check them."""


@app.command(epilog="Example: loopwarden topics create --partitions 12 --replication-factor 3")
def create(
    partitions: Annotated[int, typer.Option(min=1, help="of all but the policies")] = 4,
    replication_factor: Annotated[int, typer.Option(min=1, help="copies of each partition")] = 1,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
    group: Group = None,
) -> None:
    """Create the missing topics with their settings, keep the others, and check all of them.

    The changelog of the workers is one of them, so that they need no permission to create topics.
    """
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix, group=group)
    created = asyncio.run(
        topics_admin.create_topics(
            Connection.from_settings(settings),
            settings.topics,
            partitions=partitions,
            replication_factor=replication_factor,
            max_event_bytes=settings.max_event_bytes,
            group=settings.group,
        )
    )
    specs = settings.topics.specs(
        partitions=partitions,
        max_event_bytes=settings.max_event_bytes,
        replication_factor=replication_factor,
        group=settings.group,
    )
    for spec in specs:
        typer.echo(f"{spec.name}: {'created' if spec.name in created else 'kept'}")
    _report(asyncio.run(topics_admin.check_topics(Connection.from_settings(settings), settings.topics, group=settings.group)))


@app.command(epilog="Example: loopwarden topics check --bootstrap kafka:9092")
def check(bootstrap: Bootstrap = None, topic_prefix: TopicPrefix = None, group: Group = None) -> None:
    """Check that all topics are there, agree in their partitions and have the right cleanup policy; exit 1 if not."""
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix, group=group)
    _report(asyncio.run(topics_admin.check_topics(Connection.from_settings(settings), settings.topics, group=settings.group)))
    typer.echo("All topics are as they should be.")


def _report(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"loopwarden: {problem}", err=True)
    if problems:
        raise typer.Exit(FINDINGS)
