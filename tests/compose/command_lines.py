"""Command lines and variables in compose files and manifests, held against the program's own."""

import typer

from schemas.settings import Settings
from streams.cli.main import app
from streams.enforcement.signing import SECRET_VARIABLE

#: Every environment variable that a process of ours reads.
SETTINGS = {f"LOOPWARDEN_{name.upper()}" for name in Settings.model_fields} | {SECRET_VARIABLE}


def check_command_line(words: list[str]) -> None:
    """Parse a command line as the program would; raises `click.UsageError` for an unknown command or option."""
    command = typer.main.get_command(app)
    context = command.make_context("loopwarden", list(words))
    while hasattr(command, "resolve_command"):
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, words, parent=context)
