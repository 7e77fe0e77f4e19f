"""The command `loopwarden`: its subcommands, and how errors reach the person at the terminal."""

import errno
import importlib
import logging
import signal
from importlib.metadata import version
from typing import Annotated, Any

import typer
from aiokafka.errors import KafkaConnectionError, KafkaError
from pydantic import ValidationError
from typer.core import TyperGroup

from schemas.policy import PolicyError
from streams.broker import BrokerError
from streams.cli.outcomes import WRONG_USE
from streams.intake.outgoing import InvalidLineError
from streams.topics_admin import TopicsError

#: Subcommands: the module that has the typer `app`, and a line for `loopwarden --help`. A module is imported when it is wanted.
COMMANDS = {
    "demo": ("streams.cli.demo", "Show a looping run being stopped, on an embedded broker."),
    "broker": ("streams.cli.broker", "Run the embedded development broker."),
    "topics": ("streams.cli.topics", "Create the topics and check them."),
    "policy": ("streams.cli.policy", "Check policy files and publish policies."),
    "worker": ("streams.cli.worker", "Watch runs and publish decisions."),
    "publish": ("streams.cli.publish", "Publish events or lists of tool calls from files."),
    "decisions": ("streams.cli.decisions", "Read the decisions topic."),
    "enforce": ("streams.cli.enforce", "Hand decisions to a webhook or a command."),
    "audit": ("streams.cli.audit", "Verify and explain decisions, try another policy on them."),
    "scan": ("streams.cli.scan", "Find loops in logs that are there already."),
    "import": ("streams.cli.import_logs", "Write logs as events, or publish them."),
    "conformance": ("streams.cli.conformance", "Play vector files and print every difference."),
    "schema": ("streams.cli.schema", "Export the JSON Schemas and the AsyncAPI document."),
}

_EXPECTED = (BrokerError, InvalidLineError, KafkaError, OSError, PolicyError, TopicsError, ValidationError)


class Commands(TyperGroup):
    """Imports the module of a subcommand when it is asked for, and turns expected errors into lines on stderr."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a subcommand, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name][0]).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands without importing them all."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; an expected error ends with exit code 2 and without a traceback."""
        try:
            return super().invoke(ctx)
        except _EXPECTED as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # the reader of our output has gone; typer knows
                raise
            for line in _lines(error):
                typer.echo(f"loopwarden: {line}", err=True)
            raise typer.Exit(WRONG_USE) from None


def _lines(error: Exception) -> list[str]:
    if isinstance(error, ValidationError):
        if error.title != "Settings":
            raise error
        return [
            f"LOOPWARDEN_{'_'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        ]
    if isinstance(error, KafkaConnectionError):
        detail = str(error).removeprefix("KafkaConnectionError: ")
        return [f"no broker answers: {detail}; give its address with --bootstrap or LOOPWARDEN_BOOTSTRAP_SERVERS"]
    if isinstance(error, KafkaError):
        return [f"the broker refuses: {error}"]
    if isinstance(error, OSError) and error.filename is not None:
        return [f"{error.filename}: {(error.strerror or '').lower()}"]
    return str(error).splitlines()


app = typer.Typer(cls=Commands, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from streams.detection.compiled import engine_form
        from streams.detection.engine import ENGINE_VERSION

        typer.echo(f"loopwarden {version('loopwarden')}, engine {ENGINE_VERSION} ({engine_form()})")
        raise typer.Exit


@app.callback(epilog="Example: loopwarden demo")
def loopwarden(
    _version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="tell the version and end")
    ] = False,
) -> None:
    """Watch AI-agent runs from outside the gateway and stop the ones that are stuck in a loop.

    Settings come from environment variables LOOPWARDEN_*; options win over them. Exit codes: 0 fine, 1 findings or differences,
    2 wrong use or bad input.
    """


def main() -> None:
    """Run the command line; ends the process with its exit code (130 after Ctrl-C)."""
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The Kafka client logs each failed attempt beside the error it raises in the end.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    app(prog_name="loopwarden")
