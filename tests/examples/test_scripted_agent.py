"""The example agent as a person runs it: one command."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
def test_the_agent_loops_unguarded_and_is_ended_after_the_verdict_when_guarded() -> None:
    done = subprocess.run(
        [sys.executable, "examples/scripted_agent.py"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "unguarded: the agent made 60 calls" in done.stdout
    guarded = re.search(r"guarded: the agent made (\d+) calls; it was told:\n(.*)", done.stdout.split("\n", 1)[1], re.DOTALL)
    assert guarded is not None, done.stdout
    # The verdict needs 20 equal outcomes; how much later it comes depends on the machine.
    assert 20 <= int(guarded[1]) < 60
    last = guarded[2].strip().splitlines()[-1]
    assert last.startswith("Refused: job_status has been called")
    assert "same arguments and the same outcome" in last
