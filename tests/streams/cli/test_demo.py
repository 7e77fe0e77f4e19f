"""`loopwarden demo` with the broker and worker that it starts itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.cloudevents import structured
from schemas.events import CompactionCompleted

DEMO = [sys.executable, "-m", "streams.cli", "demo"]


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def recorded() -> list[str]:
    """The lines that the recorded runs give."""
    result = run_demo("--pace", "0")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def verdicts(lines: list[str], run: str) -> set[tuple[str, str]]:
    """Action and detector of the verdict lines of a run."""
    words = [line.split() for line in lines]
    return {(w[0], w[2].rstrip(":")) for w in words if len(w) > 2 and w[0] in ("WARN", "BLOCK", "ABORT") and w[1] == run}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("repeat", {("WARN", "generic_repeat"), ("BLOCK", "generic_repeat")}),
        ("stuck-poll", {("WARN", "known_poll_no_progress"), ("BLOCK", "known_poll_no_progress")}),
        ("ping-pong", {("WARN", "ping_pong"), ("BLOCK", "ping_pong"), ("WARN", "generic_repeat")}),
        ("unknown-tool", {("BLOCK", "unknown_tool_repeat")}),
        ("after-compaction", {("ABORT", "compaction_loop_persisted")}),
        ("healthy-work", set()),
        ("healthy-poll", set()),
    ],
)
def test_each_recorded_run_gets_its_verdicts_and_the_healthy_ones_none(
    recorded: list[str], run: str, expected: set[tuple[str, str]]
) -> None:
    assert any(line.startswith(f"  {run} ") and " call " in line for line in recorded)
    assert verdicts(recorded, run) == expected


def test_the_summary_counts_calls_runs_and_what_would_have_been_saved(recorded: list[str]) -> None:
    assert "110 calls seen, 7 runs judged, 5 stopped: 14 calls would have been saved." in recorded
    saved = {line.split()[0]: line.split()[-1] for line in recorded if " BLOCK " in line or " ABORT compaction" in line}
    assert saved == {"repeat": "4", "stuck-poll": "4", "ping-pong": "3", "unknown-tool": "2", "after-compaction": "1"}


def test_a_list_of_calls_is_played_without_a_line_for_each(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    call = {"run": "mine\u001b[31m", "tool": "read", "args": {"path": "a"}, "result": "b"}
    file.write_text("\n" + "\n".join(json.dumps(call | {"seq": seq}) for seq in range(23)))

    result = run_demo(str(file))

    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert verdicts(lines, "mine\\x1b[31m") == {("WARN", "generic_repeat"), ("BLOCK", "generic_repeat")}
    assert "23 calls seen, 1 run judged, 1 stopped: 3 calls would have been saved." in lines
    assert "\x1b" not in result.stdout
    assert not any(" call   1 " in line for line in lines)


def test_a_file_of_events_is_known_by_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    data = {"run_id": "r", "will_retry": True}
    event = structured(event_type=CompactionCompleted.event_type(), source="/t", event_id="1", run_id="r", data=data, sequence=1)
    file.write_bytes(event + b"\n")

    result = run_demo(str(file), "--pace", "5")

    assert (result.returncode, result.stderr) == (0, "")
    assert "context compacted" in result.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file or directory"),
        ("", ":1: no events or calls in this file"),
        ("[1]\n", ":1: expected a JSON object: an event or a tool call"),
        ("\nnot json\n", ":2: "),
        ('{"run": "r", "seq": 0, "tool": "t"}\n{"run": "r", "seq": 1}\n', ":2: tool: "),
    ],
)
def test_a_wrong_file_gives_one_line_and_exit_code_2(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "calls.jsonl"
    if content is not None:
        file.write_text(content)

    result = run_demo(str(file))

    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    assert line.startswith(f"loopwarden: {file}")
    assert said in line


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_it_and_the_broker_and_the_worker() -> None:
    mark = f"demo-test-{os.getpid()}"
    demo = subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DEMO_MARK": mark}
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if " call " in line:
            break
    assert len(marked(mark)) > 2  # the demo, its broker and its worker
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=30)

    assert demo.returncode == 130
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """The processes that inherited an environment variable with this value."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"DEMO_MARK={mark}".encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:
            continue
    return found
