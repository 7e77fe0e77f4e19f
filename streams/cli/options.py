"""Options that several subcommands have, and the settings that they change."""

from typing import Annotated

import typer

from schemas.settings import Settings

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Kafka brokers [env: LOOPWARDEN_BOOTSTRAP_SERVERS]"),
]
TopicPrefix = Annotated[
    str | None, typer.Option("--topic-prefix", metavar="TEXT", help="put before topic names [env: LOOPWARDEN_TOPIC_PREFIX]")
]
Json = Annotated[bool, typer.Option("--json", help="print JSON for programs")]


def settings_with(**given: object) -> Settings:
    """Return the settings of the environment with the options that were given; raises `pydantic.ValidationError`."""
    return Settings.model_validate(Settings().model_dump() | {name: value for name, value in given.items() if value is not None})
