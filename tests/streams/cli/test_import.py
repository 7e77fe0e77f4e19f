import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord
from typer.testing import CliRunner, Result

from schemas.events import parse_event
from schemas.topics import Topics, partition_of
from streams.cli.main import app

Run = Callable[..., Result]
ReadAll = Callable[[str, int, int], list[ConsumerRecord]]

CALL = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "secret-command"}'}}
CHAT = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "secret-output"},
]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


@pytest.fixture
def import_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `loopwarden import` in an empty folder, without any broker."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, ["import", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


def events(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for event in found:
        parse_event(json.dumps(event).encode(), key=event["data"]["run_id"].encode(), max_bytes=100_000)
    return found


def test_logs_become_event_lines_with_hashes_only(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT)
    result = import_("talk.jsonl")
    assert result.exit_code == 0
    assert "secret" not in result.stdout
    assert [
        (event["data"]["run_id"], int(event["sequence"]), event["type"].split(".")[-2]) for event in events(result.stdout)
    ] == [
        ("talk", 1, "started"),
        ("talk", 2, "finished"),
    ]
    assert result.stderr.strip() == "2 events of 1 run written"


def test_content_is_in_the_events_when_it_is_asked_for(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT)
    started, finished = events(import_("talk.jsonl", "--content", "full", "--run-prefix", "eu-", "--agent", "painter").stdout)
    assert started["data"]["params"] == {"command": "secret-command"}
    assert (finished["data"]["result"], finished["data"]["run_id"], finished["data"]["agent_id"]) == (
        "secret-output",
        "eu-talk",
        "painter",
    )


def test_events_go_into_a_file_that_can_be_published_or_scanned(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT * 12)
    assert import_("talk.jsonl", "--to", "events.jsonl").exit_code == 0
    assert len(events((tmp_path / "events.jsonl").read_text())) == 24
    result = CliRunner().invoke(app, ["scan", "events.jsonl", "--json"])
    assert json.loads(result.stdout.splitlines()[0])["verdict"] == "warned"
    again = import_("talk.jsonl").stdout
    assert again == (tmp_path / "events.jsonl").read_text()


def test_turns_can_be_runs_of_their_own(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT * 2)
    found = events(import_("talk.jsonl", "--turns").stdout)
    assert [(event["data"]["run_id"], int(event["sequence"])) for event in found] == [
        ("talk#1", 1),
        ("talk#1", 2),
        ("talk#2", 1),
        ("talk#2", 2),
    ]


def test_what_is_not_understood_is_told_and_a_wrong_file_is_exit_code_2(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT, {"role": "narrator", "content": "?"})
    result = import_("talk.jsonl", "missing.jsonl")
    assert result.exit_code == 2
    assert "loopwarden: missing.jsonl: no such file or directory" in result.stderr
    assert "not understood: 1 line: not a message, and no messages in it (talk.jsonl:4)" in result.stderr
    assert len(events(result.stdout)) == 2


def test_wrong_options_are_told(import_: Run, tmp_path: Path) -> None:
    write(tmp_path / "talk.jsonl", *CHAT)
    for options in (("--publish", "--to", "x.jsonl"), ("--format", "cobol"), ("--content", "some")):
        assert import_("talk.jsonl", *options).exit_code == 2
    (tmp_path / "nothing").mkdir()
    result = import_("nothing")
    assert (result.exit_code, "nothing: no logs in a known format" in result.stderr) == (2, True)
    assert import_("talk.jsonl", "--to", "nowhere/x.jsonl").exit_code == 2


def test_a_pipe_that_closes_ends_the_import(tmp_path: Path) -> None:
    file = write(tmp_path / "talk.jsonl", *CHAT * 5000)
    command = f"{sys.executable} -m streams.cli import {file} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_events_are_published_to_the_partition_of_their_run(
    loopwarden: Run, topics: Topics, read_all: ReadAll, tmp_path: Path
) -> None:
    for name in ("red", "green", "blue"):
        write(tmp_path / f"{name}.jsonl", *CHAT * 3)
    loopwarden("topics", "create", "--partitions", "3")
    result = loopwarden("import", str(tmp_path), "--publish")
    assert (result.exit_code, result.stderr.strip()) == (0, "18 events of 3 runs published")
    sequences: dict[str, list[int | None]] = {}
    for record in read_all(topics.tool_calls, 3, 18):
        event, data = parse_event(record.value, key=record.key, max_bytes=10_000)
        assert record.partition == partition_of(data.run_id, 3)
        sequences.setdefault(data.run_id, []).append(event.sequence)
    assert sequences == {name: [1, 2, 3, 4, 5, 6] for name in ("red", "green", "blue")}
