import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from typer.testing import Result

from schemas.cloudevents import structured
from schemas.decisions import AsOf, Decision, Origin, Target
from schemas.topics import Topics

Run = Callable[..., Result]
Send = Callable[[str, list[tuple[int, bytes, bytes]]], None]


def decision(run: str, number: int, *, message: str = "exec was called 20 times.") -> Decision:
    return Decision(
        decision_id=f"{number:032x}",
        run_id=run,
        action="block",
        level="critical",
        detector="generic_repeat",
        target=Target(scope="tool", tool="exec"),
        count=20,
        message=message,
        warning_key="key",
        policy_version="p",
        engine_version="e",
        since=Origin(topic="t", partition=0, offset=0),
        as_of=AsOf(topic="t", partition=0, offset=number, time=1_800_000_000_000),
    )


def record(partition: int, made: Decision) -> tuple[int, bytes, bytes]:
    return partition, made.run_id.encode(), made.to_record(source="/test")


def test_json_lines_are_the_decisions_of_all_partitions_to_their_end(loopwarden: Run, topics: Topics, send: Send) -> None:
    loopwarden("topics", "create", "--partitions", "3")
    made = [decision(f"run-{number % 2}", number) for number in range(50)]
    send(topics.decisions, [record(number % 2, one) for number, one in enumerate(made)])  # the third partition stays empty
    result = loopwarden("decisions", "--json")
    assert result.exit_code == 0
    read = [Decision.model_validate_json(line) for line in result.stdout.splitlines()]
    assert sorted(read, key=lambda one: one.decision_id) == made
    ones = [one.decision_id for one in read if one.run_id == "run-1"]
    assert ones == sorted(ones)


def test_other_records_are_skipped_and_unreadable_ones_are_findings(loopwarden: Run, topics: Topics, send: Send) -> None:
    loopwarden("topics", "create")
    marker = structured(event_type="dev.loopwarden.policy.applied.v1", source="/t", event_id="1", run_id="r", data={})
    send(topics.decisions, [(0, b"r", marker), (0, b"r", b"junk"), record(0, decision("r", 1))])
    result = loopwarden("decisions", "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"loopwarden: {topics.decisions}[0]@1: not JSON")
    assert [json.loads(line)["run_id"] for line in result.stdout.splitlines()] == ["r"]


def test_lines_for_people_carry_no_terminal_codes_of_others(loopwarden: Run, topics: Topics, send: Send) -> None:
    loopwarden("topics", "create")
    send(topics.decisions, [record(0, decision("mine", 1, message="red \x1b[31m\nnext")), record(1, decision("other", 2))])
    result = loopwarden("decisions", "--run", "mine")
    (line,) = result.stdout.splitlines()
    assert line.endswith(r"mine  generic_repeat 20  red \x1b[31m\nnext")
    assert line.startswith("2027-01-15T08:00:00.000Z  block")


def test_an_empty_topic_ends_at_once(loopwarden: Run) -> None:
    loopwarden("topics", "create")
    result = loopwarden("decisions")
    assert (result.exit_code, result.output) == (0, "")


def test_follow_prints_what_comes_until_interrupted(broker: str, loopwarden: Run, topics: Topics, send: Send) -> None:
    loopwarden("topics", "create")
    send(topics.decisions, [record(0, decision("first", 1))])
    command = [sys.executable, "-c", "from streams.cli.main import main; main()", "decisions", "--follow", "--json"]
    environment = os.environ | {"LOOPWARDEN_BOOTSTRAP_SERVERS": broker, "LOOPWARDEN_TOPIC_PREFIX": topics.prefix}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert json.loads(process.stdout.readline())["run_id"] == "first"
            send(topics.decisions, [record(3, decision("second", 2))])
            assert json.loads(process.stdout.readline())["run_id"] == "second"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=15) == 130
            assert process.stderr.read() == ""
        finally:
            process.kill()
