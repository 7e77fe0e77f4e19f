"""The benchmark harness runs; its figures are no tests."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from tests.bench.brokers import fresh_broker
from tests.bench.measuring import ContenderError, Result, Run, figure_of, run_until_committed
from tests.bench.report import ratios
from tests.bench.scale import Figures, goals

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.broker
def test_the_harness_compares_the_worker_with_the_bare_client(tmp_path: Path) -> None:
    """Both come through, their decisions are looked at, and the report has the ratio."""
    written = tmp_path / "bench.json"
    names = [word for name in ("bare aiokafka, msgspec", "Loopwarden, memory") for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.bench", "--events", "3000", "--runs", "40", "--rounds", "1", "--output", str(written)]
    done = subprocess.run([*command, *names], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "Loopwarden, memory" in done.stdout
    report = json.loads(written.read_text())
    assert report["ratios"]["vs_bare_aiokafka"] > 0
    assert [contender["rounds"][0]["events"] for contender in report["contenders"]] == [3000, 3000]


@pytest.mark.broker
def test_the_harness_measures_what_a_worker_costs_at_scale(tmp_path: Path) -> None:
    """What a run before measured is kept, and all is compared with the goals."""
    written = tmp_path / "scale.json"
    long = Figures(cpu_us_per_event=10.0, first_s=1.0, again_s=1.0, mib=100.0, peak_mib=100.0, state_bytes=10_000)
    written.write_text(json.dumps({"broker": "embedded", "events": 3000, "cases": {"historySize 300": asdict(long)}}))
    command = [sys.executable, "-m", "tests.bench.scale", "--events", "3000", "--add", "--output", str(written)]
    command += ["--only", "^1,000 live runs$"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(written.read_text())
    assert report["cases"]["1,000 live runs"]["state_bytes"] > 0
    assert report["cases"]["historySize 300"] == asdict(long)
    assert "cost of an event, historySize 300 to 30" in {goal["what"] for goal in report["goals"]}


def test_the_goals_at_scale_are_about_the_most_live_runs_that_were_measured() -> None:
    """Memory per live run is what the others take more than a thousand of them."""
    small = Figures(cpu_us_per_event=10.0, first_s=1.0, again_s=1.0, mib=100.0, peak_mib=100.0, state_bytes=1000)
    many = replace(small, cpu_us_per_event=12.0, mib=1053.0)
    reached = {goal.what: goal.value for goal in goals({"1,000 live runs": small, "1,000,000 live runs": many})}
    assert reached["RSS bytes of a live run (1,000,000, memory)"] == pytest.approx(1000, abs=5)
    assert reached["cost of an event, 1,000,000 live runs to 1,000"] == 1.2
    assert goals({}) == []


@pytest.mark.broker
async def test_a_contender_that_ends_by_itself_is_shown_with_its_log(tmp_path: Path) -> None:
    """Nothing waits for it."""
    command = [sys.executable, "-c", "raise SystemExit('no luck today')"]
    ends = {TopicPartition("nothing", 0): 1}
    with fresh_broker("embedded") as broker, pytest.raises(ContenderError, match="no luck today"):
        await run_until_committed(command, {}, bootstrap=broker.bootstrap, group="nobody", ends=ends, log=tmp_path / "log")


def test_the_rate_is_that_between_commits_of_a_warm_process() -> None:
    """Neither the start nor the wait for the last commit is in it."""
    commits = ((3.0, 100), (4.0, 1000), (5.0, 2000), (6.0, 3000), (9.0, 3100))
    full = Run(wall=9.0, cpu=5.0, peak_mib=50.0, commits=commits)
    few = Run(wall=2.0, cpu=1.9, peak_mib=40.0, commits=((2.0, 100),))
    figure = figure_of(full, few, events=3100, warm_up_events=100)
    assert figure.rate == 1000
    assert figure.cpu_us_per_event == pytest.approx(3.1 / 3000 * 1e6)
    assert figure.start == 2.0


def test_ratios_are_left_out_for_rivals_that_did_not_run() -> None:
    """There is nothing to compare with."""
    run = Run(wall=1.0, cpu=1.0, peak_mib=1.0, commits=((1.0, 10),))
    figure = figure_of(run, run, events=10, warm_up_events=1)
    results = [Result(name=name, detects=True, rounds=(figure,)) for name in ("Loopwarden, memory", "Quix Streams")]
    assert ratios(results) == {"vs_quix": 1.0}
