"""`loopwarden enforce` as an operator uses it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from typer.testing import Result

from schemas.decisions import AsOf, Decision, Origin, Target
from schemas.topics import Topics

Run = Callable[..., Result]
Send = Callable[[str, list[tuple[int, bytes, bytes]]], None]
Start = Callable[..., subprocess.Popen[str]]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PATIENCE = 60.0


def decision(run: str, number: int, **changes: Any) -> Decision:
    said: dict[str, Any] = {
        "decision_id": f"{number:032x}",
        "run_id": run,
        "action": "block",
        "level": "critical",
        "detector": "generic_repeat",
        "target": Target(scope="tool", tool="exec"),
        "count": 20,
        "message": "exec was called 20 times.",
        "warning_key": "key",
        "policy_version": "p",
        "engine_version": "e",
        "since": Origin(topic="t", partition=0, offset=0),
        "as_of": AsOf(topic="t", partition=0, offset=number, time=1_800_000_000_000),
    }
    return Decision.model_validate(said | changes)


def record(made: Decision) -> tuple[int, bytes, bytes]:
    return 0, made.run_id.encode(), made.to_record(source="/test")


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


@pytest.fixture
def start(broker_traits: Any, topics: Topics, tmp_path: Path) -> Iterator[Start]:
    """Start `loopwarden enforce` with its log in `enforce.log`; it is killed at the end of the test at the latest."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        settings = {
            "LOOPWARDEN_BOOTSTRAP_SERVERS": broker_traits.bootstrap_servers,
            "LOOPWARDEN_TOPIC_PREFIX": topics.prefix,
            "LOOPWARDEN_GROUP": topics.prefix.strip("."),
            "LOOPWARDEN_SESSION_TIMEOUT": str(broker_traits.session_timeout),
            "LOOPWARDEN_HEARTBEAT_INTERVAL": str(broker_traits.heartbeat_interval),
            "LOOPWARDEN_IDEMPOTENT_PRODUCER": str(broker_traits.idempotent_producer),
        }
        command = [sys.executable, "-m", "streams.cli", "enforce", *arguments]
        with (tmp_path / "enforce.log").open("ab") as log:
            process = subprocess.Popen(command, env={**os.environ, **settings, **environment}, stdout=log, stderr=log, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """An endpoint that takes everything: its URL, and the headers and bodies that it got."""
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            got.append((dict(self.headers), body))

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://user:hidden-password@127.0.0.1:{server.server_port}/hidden-path?token=hidden-token", got
    server.shutdown()
    thread.join()
    server.server_close()


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def test_decisions_reach_the_url_signed_and_counted_and_no_secret_is_told(
    loopwarden: Run, topics: Topics, send: Send, start: Start, endpoint: tuple[str, list[Any]], tmp_path: Path
) -> None:
    loopwarden("topics", "create")
    made = [
        decision("run-1", 1),
        decision("run-1", 2, mode="shadow"),
        decision("run-1", 3, action="release", reason="changed"),
        decision("run-2", 4, action="abort", agent_id="researcher"),
    ]
    send(topics.decisions, [record(one) for one in made])
    url, got = endpoint
    port = free_port()
    process = start("webhook", "--metrics-port", str(port), LOOPWARDEN_WEBHOOK_URL=url, LOOPWARDEN_WEBHOOK_SECRET=SECRET)
    until(lambda: len(got) == 2)
    assert sorted(Webhook(SECRET).verify(body, headers)["data"]["run_id"] for headers, body in got) == ["run-1", "run-2"]

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
            return str(response.read().decode())

    until(lambda: 'loopwarden_enforcement_records_total{receiver="webhook",result="delivered"} 2.0' in metrics())
    text = metrics()
    assert 'loopwarden_enforcement_records_total{receiver="webhook",result="filtered"} 2.0' in text
    assert 'loopwarden_enforcement_attempts_total{code="ok",receiver="webhook"} 2.0' in text
    assert "run-1" not in text
    process.terminate()
    assert process.wait(10) == 0
    log = (tmp_path / "enforce.log").read_text()
    assert "http://127.0.0.1" in log
    assert "hidden" not in log
    assert SECRET.removeprefix("whsec_") not in log


def test_shadow_decisions_and_releases_come_when_they_are_asked_for(
    loopwarden: Run, topics: Topics, send: Send, start: Start, endpoint: tuple[str, list[Any]], tmp_path: Path
) -> None:
    loopwarden("topics", "create")
    made = [
        decision("r", 1),
        decision("r", 2, mode="shadow"),
        decision("r", 3, action="release", reason="changed", mode="shadow"),
        decision("r", 4, action="release", reason="used"),
        decision("r", 5, action="warn"),
        decision("r", 6, action="release", detector="ping_pong"),
    ]
    send(topics.decisions, [record(one) for one in made])
    url, got = endpoint
    (tmp_path / "secret").write_text(SECRET)
    choice = [
        "--action",
        "block,release",
        "--mode",
        "enforce",
        "--mode",
        "shadow",
        "--detector",
        "generic_repeat, unknown_tool_repeat",
    ]
    start("webhook", "--url", url, "--secret-file", str(tmp_path / "secret"), *choice)
    until(lambda: len(got) == 4)
    assert [int(headers["webhook-id"], 16) for headers, _ in got] == [1, 2, 3, 4]


def test_a_group_may_begin_now(
    loopwarden: Run, topics: Topics, send: Send, start: Start, endpoint: tuple[str, list[Any]], tmp_path: Path
) -> None:
    loopwarden("topics", "create")
    send(topics.decisions, [record(decision("r", number)) for number in range(5)])
    url, got = endpoint
    start("webhook", "--url", url, "--unsigned", "--from-now")
    until(lambda: "taken over" in (tmp_path / "enforce.log").read_text())
    send(topics.decisions, [record(decision("r", 9))])
    until(lambda: got)
    assert [int(headers["webhook-id"], 16) for headers, _ in got] == [9]
    assert "webhook-signature" not in got[0][0]


def test_a_command_gets_each_decision_and_ctrl_c_ends_the_worker(
    loopwarden: Run, topics: Topics, send: Send, start: Start, tmp_path: Path
) -> None:
    loopwarden("topics", "create")
    send(topics.decisions, [record(decision("r", number)) for number in range(1, 4)])
    out = tmp_path / "out"
    text = (
        "import os, sys; print(os.environ['LOOPWARDEN_DECISION_ID'], sys.stdin.read(), file=open(sys.argv[1], 'a'), flush=True)"
    )
    process = start("command", "--timeout", "50", "--", sys.executable, "-c", text, str(out))
    until(lambda: out.exists() and out.read_text().count("\n") == 3)
    until(lambda: process.poll() is not None or "taken over" in (tmp_path / "enforce.log").read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    ids = [line.split(" ", 1) for line in out.read_text().splitlines()]
    assert [int(one, 16) for one, _ in ids] == [1, 2, 3]
    assert [json.loads(event)["id"] for _, event in ids] == [one for one, _ in ids]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["webhook"], "--url"),
        (["webhook", "--url", "gateway.example"], "must be http://host"),
        (["webhook", "--url", "http://h"], "LOOPWARDEN_WEBHOOK_SECRET"),
        (["webhook", "--url", "http://h", "--secret-file", "/nowhere"], "/nowhere: no such file"),
        (["webhook", "--url", "http://h", "--unsigned", "--ca-file", "/nowhere"], "/nowhere: no such file"),
        (["webhook", "--url", "http://h", "--unsigned", "--ca-file", __file__], "holds no certificate"),
        (["webhook", "--url", "http://h", "--unsigned", "--action", "abort,stop"], "unknown 'stop'; known are block, warn"),
        (
            ["webhook", "--url", "http://h", "--unsigned", "--detector", "pingpong"],
            "unknown 'pingpong'; known are generic_repeat",
        ),
        (["webhook", "--url", "http://h", "--unsigned", "--mode", "dry"], "unknown 'dry'; known are enforce"),
        (["webhook", "--url", "http://h", "--unsigned", "--agent", ","], "--agent: names nothing"),
        (["webhook", "--url", "http://h", "--unsigned", "--group", "a b"], "--group: "),
        (["webhook", "--url", "http://h", "--unsigned"], "missing; run `loopwarden topics create`"),
        (["command"], "Missing argument"),
        (["command", "--", "no-such-command-here"], "no-such-command-here: no such command"),
    ],
)
def test_wrong_use_is_told_with_the_remedy(loopwarden: Run, arguments: list[str], told: str) -> None:
    result = loopwarden("enforce", *arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_topics_that_do_not_fit_together_are_told(loopwarden: Run, topics: Topics, topic_factory: Callable[..., str]) -> None:
    topic_factory(name=topics.deliveries, partitions=2)
    loopwarden("topics", "create", "--partitions", "3")
    result = loopwarden("enforce", "webhook", "--url", "http://h", "--unsigned")
    assert result.exit_code == 2
    assert f"{topics.deliveries}: 2 partitions, but 3 in {topics.decisions}" in result.stderr


def test_a_port_that_is_taken_is_told(loopwarden: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = loopwarden("enforce", "webhook", "--url", "http://h", "--unsigned", "--metrics-port", port)
    assert result.exit_code == 2
    assert f"--metrics-port {port} on 127.0.0.1: Address already in use" in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["webhook", "command"])
def test_help_ends_with_an_example(loopwarden: Run, name: str) -> None:
    assert f"Example: loopwarden enforce {name}" in " ".join(loopwarden("enforce", name, "--help").stdout.split()[-12:])
