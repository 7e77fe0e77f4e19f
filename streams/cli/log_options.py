"""Options of the subcommands that read logs."""

from typing import Annotated

import typer

from streams.transcripts.registry import FORMATS

FormatName = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help=f"format of all files; default: found by content. One of {', '.join(FORMATS)}"),
]
Turns = Annotated[
    bool, typer.Option("--turns", help="each prompt begins a run of its own: earlier turns do not count against it")
]


def checked_format(name: str | None) -> None:
    """Raise `typer.BadParameter` for a format that is not known."""
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"--format {name}: there is {', '.join(FORMATS)}")
