"""`loopwarden audit` against topics that a worker judged."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams.cli.main import app
from tests.streams.audit.conftest import Forger, policy
from tests.streams.processor.conftest import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.broker

Run = Callable[..., Result]


def environment(lab: Lab) -> dict[str, str]:
    return lab.settings.environment()


@pytest.fixture
def loopwarden() -> Run:
    """Run a subcommand on the topics of a lab: `loopwarden(lab, "audit", "verify")`."""

    def run(lab: Lab, *arguments: str) -> Result:
        result = CliRunner().invoke(app, list(arguments), env=environment(lab))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


async def judge(lab: Lab) -> None:
    await lab.create()
    await lab.publish([*lab.run("looping").loop(25), *lab.run("healthy").loop(2)])
    worker = lab.worker()
    await lab.committed(worker)
    worker.stop()


@pytest.fixture
def judged(lab: Lab) -> Lab:
    """A lab whose topics have a looping run, a healthy one, and the decisions of a worker."""
    asyncio.run(judge(lab))
    return lab


def test_verify_says_that_there_are_no_differences(judged: Lab, loopwarden: Run) -> None:
    result = loopwarden(judged, "audit", "verify")
    assert result.exit_code == 0, result.output
    assert "54 events" in result.stdout
    assert "0 missing, 0 extra, 0 different" in result.stdout
    assert result.stdout.endswith("No differences.\n")
    assert result.stderr == ""

    result = loopwarden(judged, "audit", "verify", "--json", "--run", "looping", "--processes", "2")
    (summary,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (summary["kind"], summary["differences"], summary["events"]) == ("summary", 0, 50)
    assert summary["equal"] > 10


def test_verify_names_differences_and_exits_with_1(judged: Lab, loopwarden: Run) -> None:
    forger = Forger(judged)
    changed = asyncio.run(forger.copy(lambda records: [one.with_data(count=7) if one.data else one for one in records[:5]]))
    other = Lab(changed.settings, judged.folder)
    result = loopwarden(other, "audit", "verify")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    different = [line for line in lines if line.startswith("different")]
    assert different
    assert all("count: 7, recomputed" in line and changed.settings.topics.decisions in line for line in different)
    assert any(line.startswith("missing") for line in lines)
    result = loopwarden(other, "audit", "verify", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert {one["kind"] for one in found} == {"different", "missing", "summary"}
    assert all(one["fields"][0]["path"] == "count" for one in found if one["kind"] == "different")


def test_a_verification_goes_on_where_it_was_interrupted(judged: Lab, loopwarden: Run, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    whole = loopwarden(judged, "audit", "verify", "--resume", str(file))
    assert whole.exit_code == 0
    kept = json.loads(file.read_bytes())
    kept["done"].pop(min(kept["done"]))  # as if it had been interrupted during this partition
    file.write_text(json.dumps(kept))
    asyncio.run(judged.publish(judged.run("later").loop(3)))  # is not part of what was begun
    again = loopwarden(judged, "audit", "verify", "--resume", str(file))
    assert (again.exit_code, again.stdout) == (0, whole.stdout)
    assert len(json.loads(file.read_bytes())["done"]) == len(kept["ranges"])

    result = loopwarden(judged, "audit", "verify", "--resume", str(file), "--run", "looping")
    assert (result.exit_code, "belongs to a verification of something else" in result.stderr) == (2, True)
    file.write_text("{}")
    result = loopwarden(judged, "audit", "verify", "--resume", str(file))
    assert (result.exit_code, "not a file of `audit verify --resume`" in result.stderr) == (2, True)


def test_explain_tells_the_story(judged: Lab, loopwarden: Run) -> None:
    decisions = asyncio.run(judged.decisions())
    block = next(decision for decision in decisions if decision.action == "block")
    result = loopwarden(judged, "audit", "explain", block.decision_id)
    assert result.exit_code == 0, result.output
    assert f"{block.as_of.topic}[{block.as_of.partition}]@{block.as_of.offset}" in result.stdout
    assert "criticalThreshold 20" in result.stdout
    assert "Recomputed from the events: equal." in result.stdout
    result = loopwarden(judged, "audit", "explain", "--run", "looping", "--json")
    found = json.loads(result.stdout)
    assert found["decision"]["run_id"] == "looping"
    assert len(found["calls"]) == found["decision"]["count"]


def test_what_if_counts_what_a_stricter_policy_changes(judged: Lab, loopwarden: Run, tmp_path: Path) -> None:
    file = tmp_path / "strict.json"
    file.write_text(json.dumps(policy(warningThreshold=5, criticalThreshold=8, globalCircuitBreakerThreshold=12)))
    result = loopwarden(judged, "audit", "what-if", "--policy", str(file), "--list")
    assert result.exit_code == 0, result.output
    assert "earlier  block read (generic_repeat)" in result.stdout
    # calls 9 to 25 instead of 21 to 25
    assert "would have been refused: 17; under the policy in force 5 (saves 12)" in result.stdout
    loose = tmp_path / "loose.json"
    loose.write_text(json.dumps(policy()))
    there = loopwarden(judged, "audit", "what-if", "--policy", str(file), "--base", str(loose), "--json")
    back = loopwarden(judged, "audit", "what-if", "--policy", str(loose), "--base", str(file), "--json")
    one, other = (json.loads(result.stdout.splitlines()[-1]) for result in (there, back))
    assert one["calls_saved"] == -other["calls_saved"] == 12
    assert one["changes"]["earlier"] == other["changes"]["later"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("verify", "--from", "0:999999"), "the partition ends at"),
        (("verify", "--from", "2100-01-01T00:00:00Z"), "there is no event in any partition"),
        (("verify", "--run", "nobody"), "run nobody: no event of it in the range"),
        (("verify", "--partition", "7"), "partition 7: there are 2"),
        (("verify", "--policy", "missing.json"), "missing.json"),
        (("explain", "f" * 32), "not in any of the 2 partitions"),
        (("explain",), "name a decision, or a run"),
        (("what-if", "--policy", "missing.json"), "missing.json"),
    ],
)
def test_wrong_use_ends_in_one_line_and_exit_code_2(judged: Lab, loopwarden: Run, arguments: tuple[str, ...], says: str) -> None:
    result = loopwarden(judged, "audit", *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert result.stdout == ""
    if "Usage" not in result.stderr:
        assert len(result.stderr.splitlines()) == 1


def test_empty_topics_and_missing_ones_are_wrong_use(lab: Lab, loopwarden: Run) -> None:
    result = loopwarden(lab, "audit", "verify")
    assert (result.exit_code, "missing; run `loopwarden topics create`" in result.stderr) == (2, True)
    asyncio.run(lab.create())
    result = loopwarden(lab, "audit", "verify")
    assert (result.exit_code, "there is no event in any partition" in result.stderr) == (2, True)


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_ctrl_c_stops_at_once_and_leaves_no_process(judged: Lab) -> None:
    asyncio.run(judged.publish(judged.run("unjudged").loop(25)))  # its decisions are waited for
    command = [sys.executable, "-m", "streams.cli", "audit", "verify", "--wait", "600", "--processes", "2"]
    with subprocess.Popen(
        command, env=os.environ | environment(judged), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            if children.exists():
                while len(children.read_text().split()) < 2:
                    assert process.poll() is None
            started = children.read_text().split() if children.exists() else []
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
            assert process.stderr is not None
            assert b"Traceback" not in process.stderr.read()
            deadline = time.monotonic() + 60
            while any(alive(pid) for pid in started):  # other people's processes cannot be awaited
                assert time.monotonic() < deadline, "processes are left"
                time.sleep(0.01)
        finally:
            process.kill()
