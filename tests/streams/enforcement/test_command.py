"""Running a command for a decision."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.decisions import Decision, Origin, Target
from streams.enforcement.command import CommandReceiver
from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError
from tests.streams.enforcement.conftest import until

Make = Callable[..., Decision]


@pytest.fixture
def envelope_of(decision_factory: Make) -> Callable[..., DecisionEnvelope]:
    def make(**changes: object) -> DecisionEnvelope:
        decision = decision_factory(**changes)
        return DecisionEnvelope(Origin(topic="d", partition=1, offset=5), decision, decision.to_record(source="/w"))

    return make


def python(text: str, *arguments: str, **options: float) -> CommandReceiver:
    return CommandReceiver([sys.executable, "-c", text, *arguments], **options)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # a zombie of a group that was killed is not alive
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_the_decision_is_on_standard_input_and_its_ids_in_the_environment(
    envelope_of: Callable[..., DecisionEnvelope], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPWARDEN_REQUIRE_KAFKA", raising=False)  # of the test run itself
    monkeypatch.setenv("LOOPWARDEN_WEBHOOK_SECRET", "whsec_x")
    monkeypatch.setenv("LOOPWARDEN_SASL_PASSWORD", "p")
    monkeypatch.setenv("LOOPWARDEN_BOOTSTRAP_SERVERS", "kafka:9092")
    target = Target(scope="tool", tool="exec")
    envelope = envelope_of(run="r-1", session_id="s-1", agent_id="ä\0\ud800", action="abort", target=target)
    text = "import json, os, sys; json.dump([json.load(sys.stdin), dict(os.environ)], open(sys.argv[1], 'w'))"
    await python(text, str(tmp_path / "out")).hand_over(envelope)
    event, environment = json.loads((tmp_path / "out").read_text())
    assert event == json.loads(envelope.body)
    said = {name.removeprefix("LOOPWARDEN_"): value for name, value in environment.items() if name.startswith("LOOPWARDEN_")}
    assert said.pop("BOOTSTRAP_SERVERS") == "kafka:9092"
    assert said == {
        "DECISION_ID": envelope.decision.decision_id,
        "RUN_ID": "r-1",
        "SESSION_ID": "s-1",
        "AGENT_ID": "ä?",
        "ACTION": "abort",
        "LEVEL": "critical",
        "DETECTOR": "generic_repeat",
        "TARGET_SCOPE": "tool",
        "TARGET_TOOL": "exec",
        "MODE": "enforce",
        "ORIGIN": "d[1]@5",
    }


@pytest.mark.parametrize(
    ("text", "code"), [("raise SystemExit(3)", "exit_3"), ("import os; os.kill(os.getpid(), 9)", "signal_9")]
)
async def test_another_end_than_exit_code_0_is_to_be_tried_again(
    envelope_of: Callable[..., DecisionEnvelope], text: str, code: str
) -> None:
    with pytest.raises(NoAnswerError) as caught:
        await python(text).hand_over(envelope_of())
    assert caught.value.code == code


async def test_a_command_that_cannot_be_started_is_to_be_tried_again(envelope_of: Callable[..., DecisionEnvelope]) -> None:
    with pytest.raises(NoAnswerError) as caught:
        await CommandReceiver(["/nowhere/command"]).hand_over(envelope_of())
    assert (caught.value.code, str(caught.value)) == ("not_started", "cannot be started: no such file or directory")


async def test_a_command_need_not_read_a_decision_however_long(envelope_of: Callable[..., DecisionEnvelope]) -> None:
    envelope = envelope_of(message="x" * 500_000)
    await CommandReceiver(["true"]).hand_over(envelope)


GROUP = """
import os, signal, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
process.stdout.readline()
with open(sys.argv[1] + ".part", "w") as file:
    print(os.getpid(), process.pid, file=file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


async def test_the_time_out_kills_the_whole_process_group(envelope_of: Callable[..., DecisionEnvelope], tmp_path: Path) -> None:
    """Children that ignore SIGTERM included."""
    pids = tmp_path / "pids"
    with pytest.raises(NoAnswerError, match="killed"):
        await python(GROUP, str(pids), timeout=5.0).hand_over(envelope_of())
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: not alive(pid), what="the end of the process group")


async def test_nothing_goes_on_when_the_worker_breaks_an_attempt_off(
    envelope_of: Callable[..., DecisionEnvelope], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    attempt = asyncio.create_task(python(GROUP, str(pids)).hand_over(envelope_of()))
    await until(pids.exists, what="the start of the command")
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    for pid in map(int, pids.read_text().split()):
        await until(lambda pid=pid: not alive(pid), what="the end of the process group")
