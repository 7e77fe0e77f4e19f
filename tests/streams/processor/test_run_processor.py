"""Real workers that stop, die and come back: nothing is lost, and nothing is decided otherwise."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from schemas.decisions import Decision
from schemas.topics import partition_of

pytestmark = pytest.mark.broker

DETECTORS_OFF = {"tools": {"loopDetection": {"enabled": False}}}


def by_id(decisions: Iterable[Decision]) -> dict[str, dict[str, Any]]:
    """Map decision ids to what the decisions say; two of one id must say the same."""
    said: dict[str, dict[str, Any]] = {}
    for decision in decisions:
        content = decision.model_dump(exclude={"decided_at"})
        assert said.setdefault(decision.decision_id, content) == content
    return said


def actions(decisions: Iterable[Decision]) -> list[tuple[str, int]]:
    """Return actions and counts without repetitions of one decision."""
    return [(decision.action, decision.count) for decision in {d.decision_id: d for d in decisions}.values()]


@pytest.mark.parametrize("store", ["memory://", "rocksdb://"])
async def test_a_run_goes_on_where_it_was_after_a_graceful_restart(lab: Any, store: str) -> None:
    await lab.create()
    runs = [lab.run(f"run-{number}") for number in range(3)]
    first = [event for run in runs for event in run.loop(12)]
    rest = [event for run in runs for event in run.loop(13)]
    worker = lab.worker(store=store)
    await lab.publish(first)
    await lab.committed(worker)
    worker.stop()
    assert {action for action, _ in actions(await lab.decisions())} == {"warn", "release"}
    worker = lab.worker(store=store)
    await lab.publish(rest)
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert by_id(decisions) == by_id(lab.engine_alone([*first, *rest]))
    assert {decision.run_id for decision in decisions if decision.action == "block"} == {"run-0", "run-1", "run-2"}
    assert len(decisions) == len(by_id(decisions)), "a graceful stop leaves nothing to be done twice"


async def test_what_a_killed_worker_had_not_committed_is_decided_again_and_the_same(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    parts = [run.loop(11), run.loop(11), run.loop(11)]
    worker = lab.worker()
    await lab.publish(parts[0])
    await lab.committed(worker)
    worker.stop()
    # It decides and never commits, so that its death falls between the decisions and the states.
    worker = lab.worker(commit_interval=600.0)
    await lab.publish(parts[1])
    await lab.decision(lambda decision: decision.action == "block")
    worker.kill()
    worker = lab.worker()
    await lab.publish(parts[2])
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert by_id(decisions) == by_id(lab.engine_alone([event for part in parts for event in part]))
    assert len(decisions) > len(by_id(decisions)), "the second part was decided twice"


async def test_the_end_of_a_run_drops_its_state_and_its_id_can_be_used_again(lab: Any) -> None:
    await lab.create()
    run = lab.run()
    first = [*run.loop(15), *run.ended()]
    worker = lab.worker()
    await lab.publish(first)
    await lab.committed(worker)
    worker.stop()
    changelog = await lab.records(f"{lab.settings.group}-runs-changelog", partition_of(run.run_id, 2))
    *_, stub, tombstone = [record for record in changelog if record.key == b"run"]
    assert tombstone.value is None
    assert stub.value is not None
    again = run.loop(15)
    worker = lab.worker()
    await lab.publish(again)
    await lab.committed(worker)
    decisions = await lab.decisions()
    assert [count for action, count in actions(decisions) if action == "warn"] == [10, 10]
    assert "block" not in {decision.action for decision in decisions}
    assert by_id(decisions) == by_id(lab.engine_alone([*first, *again]))


async def test_another_policy_releases_a_blocked_call_without_a_new_event(lab: Any) -> None:
    await lab.create()
    events = lab.run().loop(21)
    worker = lab.worker()
    await lab.publish(events)
    await lab.committed(worker)
    worker.stop()
    blocked = [decision for decision in await lab.decisions() if decision.action == "block"][-1]
    lab.worker(DETECTORS_OFF)
    released = await lab.decision(lambda decision: decision.policy_version != blocked.policy_version)
    assert (released.action, released.reason) == ("release", "changed")
    assert (released.target, released.detector, released.count) == (blocked.target, blocked.detector, blocked.count)


async def test_states_that_another_policy_changed_are_written_while_no_event_comes(lab: Any) -> None:
    """Else a worker that dies before the next event leaves states behind that contradict the decisions."""
    await lab.create()
    worker = lab.worker()
    await lab.publish(lab.run().loop(21))
    await lab.committed(worker)
    worker.stop()
    blocked = [decision for decision in await lab.decisions() if decision.action == "block"][-1]
    changelog = (f"{lab.settings.group}-runs-changelog", partition_of("run", 2))
    before = len(await lab.records(*changelog))
    worker = lab.worker(DETECTORS_OFF)
    await lab.decision(lambda decision: decision.policy_version != blocked.policy_version)
    async with asyncio.timeout(10):
        while len(await lab.records(*changelog)) == before:
            pass
    worker.kill()
    worker = lab.worker()
    async with asyncio.timeout(20):
        while (await lab.decisions())[-1].action != "block":
            worker.ensure_running()
    assert (await lab.decisions())[-1].decision_id == blocked.decision_id
