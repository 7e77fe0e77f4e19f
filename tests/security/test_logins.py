"""Logins by password against a real broker, and where passwords must not be seen."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.settings import Settings
from streams.processor.worker_process import WorkerProcess
from tests.security.conftest import PASSWORDS

pytestmark = pytest.mark.broker

Run = Callable[..., Any]
Environment = Callable[..., dict[str, str]]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture
def in_file(tmp_path: Path) -> Callable[[dict[str, str]], dict[str, str]]:
    """Move the password from the environment into a file."""

    def move(variables: dict[str, str]) -> dict[str, str]:
        path = tmp_path / f"password-of-{variables['LOOPWARDEN_SASL_USERNAME']}"
        path.write_text(variables["LOOPWARDEN_SASL_PASSWORD"] + "\n", "utf-8")
        rest = {name: value for name, value in variables.items() if name != "LOOPWARDEN_SASL_PASSWORD"}
        return {**rest, "LOOPWARDEN_SASL_PASSWORD_FILE": str(path)}

    return move


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("by_file", [False, True], ids=["variable", "file"])
def test_each_mechanism_logs_in_over_each_protocol(
    mechanism: str, listener: str, by_file: bool, loopwarden: Run, environment: Environment, grant: Any, in_file: Any
) -> None:
    grant("operator")
    variables = environment(listener, user="operator", mechanism=mechanism)
    created = loopwarden(in_file(variables) if by_file else variables, "topics", "create")
    assert created.exit_code == 0, created.stderr


@pytest.mark.parametrize(
    ("listener", "mechanism", "by_file"), [("SASL_PLAINTEXT", "PLAIN", False), ("SASL_SSL", "SCRAM-SHA-512", True)]
)
def test_everybody_does_their_work_with_the_documented_permissions_and_no_password_is_seen(
    listener: str,
    mechanism: str,
    by_file: bool,
    loopwarden: Run,
    environment: Environment,
    grant: Any,
    in_file: Any,
    start_worker: Any,
) -> None:
    seen: list[str] = []

    def variables(user: str) -> dict[str, str]:
        found = environment(listener, user=user, mechanism=mechanism)
        return in_file(found) if by_file else found

    def run(user: str, *arguments: str, text: str = "") -> Any:
        result = loopwarden(variables(user), *arguments, text=text)
        seen.extend([result.stdout, result.stderr])
        assert result.exit_code == 0, result.stderr
        return result

    for user in ("operator", "worker", "gateway", "gate"):
        grant(user)
    run("operator", "topics", "create")
    worker = start_worker(variables("worker"))
    calls = "".join(
        f'{{"run": "r", "seq": {number}, "tool": "read", "args": {{"path": "a"}}, "result": "same"}}\n' for number in range(1, 25)
    )
    run("gateway", "publish", "--from", "calls", "-", text=calls)
    deadline = time.monotonic() + 60
    while '"block"' not in run("gate", "decisions", "--json").stdout:
        assert worker.process.poll() is None, worker.log.read_text()
        assert time.monotonic() < deadline, worker.log.read_text()
    seen.append(worker.title)
    worker.process.terminate()
    assert worker.process.wait(30) == 0
    seen.append(worker.log.read_text())
    for user in ("operator", "worker", "gateway", "gate"):
        assert not [text for text in seen if PASSWORDS[user] in text]


def test_a_worker_process_gets_the_password_but_not_on_its_command_line(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, grant: Any, loopwarden: Run
) -> None:
    grant("operator")
    grant("worker")
    assert loopwarden(environment("SASL_SSL", user="operator"), "topics", "create").exit_code == 0
    variables = environment("SASL_SSL", user="worker")
    with monkeypatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        settings = Settings()
    log = tmp_path / "worker.log"
    with WorkerProcess(settings, log_path=log) as worker:
        deadline = time.monotonic() + 60
        while "partitions taken over" not in log.read_text():
            worker.ensure_running()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        assert not [title for title in titles() if PASSWORDS["worker"].encode() in title]


def titles() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # gone meanwhile
            yield path.read_bytes()


@pytest.mark.parametrize(
    ("mechanism", "command"),
    [
        ("PLAIN", ("topics", "check")),
        ("SCRAM-SHA-256", ("topics", "check")),
        ("SCRAM-SHA-512", ("topics", "check")),
        ("SCRAM-SHA-512", ("worker",)),
        ("SCRAM-SHA-512", ("decisions",)),
        ("SCRAM-SHA-512", ("publish", "--from", "calls", "-")),
    ],
)
def test_a_wrong_password_is_one_line_and_not_tried_for_ever(
    mechanism: str, command: tuple[str, ...], loopwarden: Run, environment: Environment, secured: Any
) -> None:
    before = failures(secured)
    variables = {**environment("SASL_SSL", user="gate", mechanism=mechanism), "LOOPWARDEN_SASL_PASSWORD": "wr0ng-secret"}
    result = loopwarden(variables, *command, text='{"run": "r", "seq": 1, "tool": "t", "args": {}}\n')
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if "no policy: only the post-compaction guard runs" not in line]
    (line,) = lines
    assert line == (
        f"loopwarden: {secured.address('SASL_SSL')}: login of user gate by {mechanism} failed: wrong user name or password"
    )
    assert "wr0ng-secret" not in result.stdout + result.stderr
    assert 1 <= failures(secured) - before <= 2


def failures(secured: Any) -> int:
    return int(secured.kafka.log_path.read_text().count("Failed authentication with"))


@pytest.mark.parametrize(
    ("listener", "changes", "expected"),
    [
        ("SASL_SSL", {"SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, "LOOPWARDEN_SECURITY_PROTOCOL is SASL_PLAINTEXT, is that what"),
        ("PLAINTEXT", {"SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, "this listener takes no login"),
        ("SASL_SSL", {"SECURITY_PROTOCOL": "SSL", "SASL_USERNAME": ""}, "LOOPWARDEN_SECURITY_PROTOCOL is SSL, is that what"),
        ("SASL_SSL", {"SECURITY_PROTOCOL": "PLAINTEXT"}, "LOOPWARDEN_SASL_USERNAME: not used with LOOPWARDEN_SECURITY_PROTOCOL"),
        ("SASL_SSL", {"SASL_USERNAME": ""}, "LOOPWARDEN_SASL_USERNAME: needed with LOOPWARDEN_SECURITY_PROTOCOL=SASL_SSL"),
        ("SASL_SSL", {"SASL_PASSWORD": ""}, "LOOPWARDEN_SASL_PASSWORD_FILE: this or LOOPWARDEN_SASL_PASSWORD is needed"),
        ("SASL_SSL", {"SASL_MECHANISM": "GSSAPI"}, "LOOPWARDEN_SASL_MECHANISM: Input should be 'PLAIN', 'SCRAM-SHA-256' or"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(
    listener: str, changes: dict[str, str], expected: str, loopwarden: Run, environment: Environment, secured: Any
) -> None:
    given = environment("SASL_SSL", user="gate")
    given |= {"LOOPWARDEN_BOOTSTRAP_SERVERS": secured.address(listener)}
    given |= {f"LOOPWARDEN_{name}": value for name, value in changes.items()}
    result = loopwarden(given, "topics", "check")
    assert result.exit_code == 2
    assert expected in result.line
    assert PASSWORDS["gate"] not in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such file or directory"),
        (b"", "is empty"),
        (b"\nsecond", "is empty"),
        (b"s3cr\xff\xfet", "is not UTF-8 text"),
    ],
)
def test_a_file_without_a_password_is_named_and_not_quoted(
    content: bytes | None, expected: str, loopwarden: Run, environment: Environment, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    variables = environment("SASL_SSL", user="gate", sasl_password_file=str(path))
    del variables["LOOPWARDEN_SASL_PASSWORD"]
    result = loopwarden(variables, "topics", "check")
    assert result.exit_code == 2
    assert expected in result.line
    assert str(path) in result.line
    assert "s3cr" not in result.stderr


def test_help_shows_no_secret(loopwarden: Run, environment: Environment) -> None:
    variables = environment("SASL_SSL", user="worker")
    for command in ((), ("worker",), ("topics", "create"), ("publish",), ("decisions",)):
        shown = loopwarden(variables, *command, "--help")
        assert shown.exit_code == 0
        assert PASSWORDS["worker"] not in shown.stdout + shown.stderr
