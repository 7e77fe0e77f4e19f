"""Runs in the shapes that recorded agents have: what is decided about them, by a real worker."""

from typing import Any

import pytest

pytestmark = pytest.mark.broker


def healthy_build_loop(run: Any, builds: int) -> list[Any]:
    """Edit and build in turn: the edits differ, the builds are equal and nearly all of them pass."""
    events = []
    for number in range(builds):
        events += run.call("edit", {"path": f"src/part{number % 5}.ts", "new": f"line {number}"}, f"edited {number}")
        outcome = "2 errors" if number % 9 == 8 else "build passed"
        events += run.call("bash", {"command": "npm run build"}, outcome)
    return events


def reused_call_ids(run: Any, calls: int) -> list[Any]:
    """Give the same call id to calls of different parameters, as some model providers do."""
    return [event for n in range(calls) for event in run.call("lookup", {"user": n}, f"user {n}", call_id=f"call_{n % 2}")]


def equal_calls_with_reused_ids(run: Any, calls: int) -> list[Any]:
    """Repeat one call under one id."""
    return [event for _ in range(calls) for event in run.call("lookup", {"user": 1}, "user 1", call_id="call_0")]


async def test_what_is_decided_about_runs_in_recorded_shapes(lab: Any) -> None:
    await lab.create()
    shapes = {
        "build": healthy_build_loop(lab.run("build"), 34),
        "ten": lab.run("ten").loop(10),
        "nine": lab.run("nine").loop(9),
        "ids": reused_call_ids(lab.run("ids"), 30),
        "equal ids": equal_calls_with_reused_ids(lab.run("equal ids"), 21),
    }
    events = [event for shape in shapes.values() for event in shape]
    worker = lab.worker()
    await lab.publish(events)
    await lab.committed(worker)
    said: dict[str, list[tuple[str, int]]] = {name: [] for name in shapes}
    for decision in await lab.decisions():
        said[decision.run_id].append((decision.action, decision.count))
    # The repeated build is worth a warning each ten builds, never a block: edits and failures lie between.
    assert [entry for entry in said["build"] if entry[0] == "warn"]
    assert {action for action, _ in said["build"]} == {"warn", "release"}
    # The eleventh call would be warned; it never came.
    assert said["ten"] == [("warn", 10)]
    assert said["nine"] == []
    assert said["ids"] == []
    assert said["equal ids"][0] == ("warn", 10)
    assert said["equal ids"][-1][0] == "block"
