"""Explanations of decisions that real workers made."""

import asyncio
from typing import Any

import pytest

from schemas.events import ToolCallBlocked
from streams.audit.explain_text import calls_table, ending, story
from streams.audit.explaining import Explainer, ExplainError
from streams.audit.explanation import Explanation
from streams.audit.log_reader import LogReader
from streams.connection import Connection
from tests.streams.audit.conftest import policy
from tests.streams.processor.conftest import Lab

pytestmark = pytest.mark.broker


async def explained(lab: Lab, decision_id: str | None = None, **chosen: Any) -> Explanation:
    def work() -> Explanation:
        with LogReader(Connection.from_settings(lab.settings)) as reader:
            return Explainer(reader, lab.settings).explain(decision_id, **chosen)

    return await asyncio.to_thread(work)


async def test_a_refused_loop_is_told_with_its_calls_its_policy_and_that_it_was_enforced(lab: Lab) -> None:
    await lab.create()
    run = lab.run("looping")
    other = lab.run("other")
    await lab.publish([*other.loop(3), *run.loop(3), *other.loop(4), *run.loop(3)])
    worker = lab.worker(policy(warningThreshold=3, criticalThreshold=5))
    block = await lab.decision(lambda one: one.run_id == "looping" and one.action == "block" and one.count == 6)
    refused = run.event(ToolCallBlocked, tool="read", params={"path": "a.txt"}, reason="loop", decision_id=block.decision_id)
    await lab.publish([refused, *run.ended()])
    await lab.committed(worker)

    for chosen in ({}, {"run_id": "looping"}, {"partition": block.as_of.partition}):
        found = await explained(lab, block.decision_id, **chosen)
        assert found.recomputed == "equal"
        assert [call.sequence for call in found.calls] == [1, 3, 5, 7, 9, 11]
        topic = lab.settings.topics.tool_calls
        records = [one for one in await lab.records(topic, block.as_of.partition) if one.key == b"looping"]
        assert [call.started for call in found.calls] == [f"{topic}[{one.partition}]@{one.offset}" for one in records[0:12:2]]
        assert [call.finished for call in found.calls] == [f"{topic}[{one.partition}]@{one.offset}" for one in records[1:12:2]]
        assert len({call.outcome for call in found.calls}) == 1
        assert (found.policy.settings["warningThreshold"], found.policy.settings["criticalThreshold"]) == (3, 5)
        assert found.policy.marker is not None
        assert found.policy.since is not None
        assert found.aftermath.outcome == "enforced"
        assert found.aftermath.event == f"{topic}[{block.as_of.partition}]@{records[12].offset}"
        assert block.decision_id in {one.decision_id for one in found.told}

    found = await explained(lab, run_id="looping")
    assert found.decision.action != "release"
    text = "\n".join([*story(found), *ending(found)])
    assert "criticalThreshold 5" in text
    assert "Recomputed from the events: equal." in text
    assert "Enforced: the gateway did as it was told" in text
    table = calls_table(found)
    assert table is not None
    assert table.row_count == len(found.calls)
    assert found.to_json()["decision"]["decision_id"] == found.decision.decision_id


async def test_a_call_that_goes_ahead_is_late_or_not_enforced(lab: Lab) -> None:
    await lab.create()
    run = lab.run("r")
    worker = lab.worker(policy(warningThreshold=3, criticalThreshold=5))
    await lab.publish(run.loop(6))  # one batch: the sixth call was there before anybody could know
    fifth = await lab.decision(lambda one: one.action == "block" and one.count == 5 and not one.late)
    sixth = await lab.decision(lambda one: one.action == "block" and one.count == 6 and not one.late)
    await lab.publish(run.loop(1))
    await lab.committed(worker)
    assert (await explained(lab, fifth.decision_id)).aftermath.outcome == "late"
    assert (await explained(lab, sixth.decision_id)).aftermath.outcome == "not_enforced"


async def test_a_detector_in_shadow_mode_is_only_reported(lab: Lab) -> None:
    await lab.create()
    worker = lab.worker(policy() | {"loopwarden": {"mode": "shadow"}})
    await lab.publish(lab.run("r").loop(25))
    await lab.committed(worker)
    found = await explained(lab, run_id="r")
    assert (found.aftermath.outcome, found.policy.mode) == ("shadow", "shadow")


@pytest.mark.parametrize(
    ("decision_id", "chosen", "says"),
    [
        ("f" * 32, {}, "not in any of the 2 partitions"),
        ("f" * 32, {"partition": 1}, "not in partition 1"),
        ("f" * 32, {"run_id": "r"}, "run r has none of that id"),
        (None, {"run_id": "nobody"}, "nothing was decided about it"),
        ("f" * 32, {"partition": 7}, "partition 7: there are 2"),
        (None, {}, "name a decision or a run"),
    ],
)
async def test_what_cannot_be_explained_is_said_in_one_line(
    lab: Lab, decision_id: str | None, chosen: dict[str, Any], says: str
) -> None:
    await lab.create()
    with pytest.raises(ExplainError, match=says):
        await explained(lab, decision_id, **chosen)
