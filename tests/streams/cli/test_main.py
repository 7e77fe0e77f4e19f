import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from streams.cli.main import COMMANDS, app
from streams.detection.compiled import engine_form
from streams.detection.engine import ENGINE_VERSION


def test_the_help_page_lists_every_subcommand() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for name, (_, text) in COMMANDS.items():
        assert name in result.stdout
        assert text in result.stdout


def test_the_version_tells_the_engine_too() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"loopwarden {version('loopwarden')}, engine {ENGINE_VERSION} ({engine_form()})\n"


@pytest.mark.parametrize(
    "arguments", [[name] for name in COMMANDS] + [["topics", "create"], ["topics", "check"], ["policy", "check"]]
)
def test_every_help_page_has_an_example(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--help"])
    assert result.exit_code == 0, result.exception
    assert f"Example: loopwarden {arguments[0]}" in result.stdout


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({"LOOPWARDEN_MAX_EVENT_BYTES": "-1"}, [], "LOOPWARDEN_MAX_EVENT_BYTES: Input should be greater than 0"),
        ({}, ["--bootstrap", "127.0.0.1:1"], "no broker answers"),
        ({}, ["--topic-prefix", "a b"], "LOOPWARDEN_TOPIC_PREFIX: String should match pattern"),
    ],
)
def test_expected_errors_are_one_line(environment: dict[str, str], arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["topics", "check", *arguments], env=environment)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"loopwarden: {message}")


def test_the_broker_prints_its_address_and_ends_on_ctrl_c() -> None:
    command = [sys.executable, "-c", "from streams.cli.main import main; main()", "broker", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            checked = CliRunner().invoke(app, ["topics", "check"], env={"LOOPWARDEN_BOOTSTRAP_SERVERS": address})
            assert checked.exit_code == 1  # it answers: the topics are missing
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(timeout=15) == 130
        finally:
            process.kill()
