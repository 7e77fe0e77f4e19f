import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.structs import ConsumerRecord
from typer.testing import Result

from schemas.cloudevents import structured
from schemas.events import CompactionCompleted, RunEnded, parse_event
from schemas.topics import Topics, partition_of

Run = Callable[..., Result]
ReadAll = Callable[[str, int, int], list[ConsumerRecord]]


def call(run: str, seq: int) -> str:
    return json.dumps({"run": run, "seq": seq, "tool": "exec", "args": '{"command": "ls"}', "result": f"out {seq}"})


def event(model: type[RunEnded] | type[CompactionCompleted], run: str, **data: object) -> str:
    given = {"run_id": run, **data}
    return structured(event_type=model.event_type(), source="/test", event_id=run, run_id=run, data=given).decode()


def test_calls_become_events_in_order_on_the_partition_of_their_run(
    loopwarden: Run, topics: Topics, read_all: ReadAll, tmp_path: Path
) -> None:
    file = tmp_path / "calls.jsonl"
    runs = ["red", "green", "blue"]
    file.write_text("\n".join(call(run, seq) for seq in range(20) for run in runs))
    loopwarden("topics", "create", "--partitions", "3")

    result = loopwarden("publish", "--from", "calls", "--agent", "painter", "--run-prefix", "x-", str(file))

    assert (result.exit_code, result.stderr.strip()) == (0, "120 events published")
    sequences: dict[str, list[int | None]] = {}
    for record in read_all(topics.tool_calls, 3, 120):
        cloud_event, data = parse_event(record.value, key=record.key, max_bytes=10_000)
        assert record.partition == partition_of(data.run_id, 3)
        assert data.agent_id == "painter"
        sequences.setdefault(data.run_id, []).append(cloud_event.sequence)
    assert sequences == {f"x-{run}": list(range(1, 41)) for run in runs}


def test_events_go_unchanged_to_the_topic_of_their_type(
    loopwarden: Run, topics: Topics, read_all: ReadAll, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    ended, compacted = event(RunEnded, "a"), event(CompactionCompleted, "a", will_retry=True)
    file.write_text(f"{ended}\n\n{compacted}\n")
    loopwarden("topics", "create")
    assert loopwarden("publish", str(file)).exit_code == 0
    assert read_all(topics.tool_calls, 4, 1)[0].value == ended.encode()
    assert read_all(topics.compactions, 4, 1)[0].value == compacted.encode()


def test_a_bad_line_is_named_after_the_good_ones_before_it_are_published(
    loopwarden: Run, topics: Topics, read_all: ReadAll, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(f"{event(RunEnded, 'a')}\n{event(CompactionCompleted, 'a')}\n{event(RunEnded, 'b')}\n")
    loopwarden("topics", "create")
    result = loopwarden("publish", str(file))
    assert result.exit_code == 2
    assert result.stderr.strip() == f"loopwarden: {file}:2: data.will_retry: Field required"
    file.write_text(event(RunEnded, "end") + "\n")
    loopwarden("publish", str(file))
    assert {record.key for record in read_all(topics.tool_calls, 4, 2)} == {b"a", b"end"}


def test_standard_input_is_read_for_a_dash(broker: str, loopwarden: Run, topics: Topics, read_all: ReadAll) -> None:
    loopwarden("topics", "create")
    command = [sys.executable, "-c", "from streams.cli.main import main; main()", "publish", "--from", "calls", "-"]
    environment = os.environ | {"LOOPWARDEN_BOOTSTRAP_SERVERS": broker, "LOOPWARDEN_TOPIC_PREFIX": topics.prefix}
    done = subprocess.run(command, input=f"{call('a', 0)}\n{{\n", env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.startswith("loopwarden: stdin:2: not JSON")
    assert len(read_all(topics.tool_calls, 4, 2)) == 2


def test_missing_topics_are_told_before_anything_is_sent(loopwarden: Run, topics: Topics, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text(call("a", 0))
    result = loopwarden("publish", "--from", "calls", str(file))
    assert result.exit_code == 2
    assert f"{topics.tool_calls}: missing; run `loopwarden topics create`" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["nosuch.jsonl"], ["--agent", "x", "nosuch.jsonl"], ["--from", "tea", "x"], ["--rate", "0", "x"]]
)
def test_wrong_use_is_exit_code_2_without_a_traceback(loopwarden: Run, arguments: list[str]) -> None:
    result = loopwarden("publish", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert result.stderr
