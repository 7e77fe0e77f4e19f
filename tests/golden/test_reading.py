"""What earlier releases wrote is read by this one: states in the changelog, and records of all topics."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from schemas.decisions import Decision
from schemas.events import parse_event
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from schemas.policy_records import read_policy_record
from schemas.settings import Settings
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.facts import RunPartition, facts_of
from streams.detection.run_state import RunState
from streams.gateway.decision_reader import read_decisions
from streams.processor import partition_policy
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

FILES = sorted(Path(__file__).parent.glob("*.json"))
#: What may differ between two releases, or between two computations.
FREE = {"decided_at", "engine_version", "message"}
HOME = RunPartition("agent.tool-calls.v1", 0)


@pytest.fixture(scope="module", params=FILES, ids=lambda file: file.stem)
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(request.param.read_text())
    return copy


def said(record: str) -> dict[str, Any]:
    """Return what a decision says, without what may differ between releases and times."""
    decision = Decision.from_record(record.encode())
    return decision.model_dump(exclude=FREE)


def with_offsets(golden: dict[str, Any]) -> Iterator[tuple[int, int, dict[str, str], list[str]]]:
    """Yield position, offset in its topic, record and decisions of each input record."""
    offsets: Counter[str] = Counter()
    for position, (record, decisions) in enumerate(zip(golden["records"], golden["decisions"], strict=True)):
        yield position, offsets[record["topic"]], record, decisions
        offsets[record["topic"]] += 1


def judged(
    golden: dict[str, Any], states: dict[str, RunState], *, since: int
) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Apply the records from a position on, and yield what is decided now and what was decided then."""
    policy = PolicyDocument.from_mapping(golden["policy"])
    for position, offset, record, then in with_offsets(golden):
        if position >= since and not (since and record["key"] in golden.get("left_out", {})):
            event, data = parse_event(record["value"].encode(), key=record["key"].encode(), max_bytes=1 << 20)
            facts = facts_of(event, data, partition=HOME, offset=offset, timestamp=0)
            state = states.setdefault(record["key"], RunState(record["key"]))
            now = apply(state, facts, policy).decisions
            yield [decision.as_read().model_dump(exclude=FREE) for decision in now], then


def test_events_of_an_earlier_release_are_decided_as_they_were(golden: dict[str, Any]) -> None:
    for now, then in judged(golden, {}, since=0):
        assert now == [said(record) for record in then]


def test_stored_states_of_an_earlier_release_go_on_as_they_would_have(golden: dict[str, Any]) -> None:
    assert golden["states"]
    for cut, stored in golden["states"].items():
        states = {run: state_codec.decode(run, base64.b64decode(data)) for run, data in stored.items()}
        for now, then in judged(golden, states, since=int(cut)):
            assert now == [said(record) for record in then]


def test_a_stored_state_is_no_newer_than_one_after_it_whatever_the_versions(golden: dict[str, Any]) -> None:
    cuts = sorted(golden["states"], key=int)
    for run, data in golden["states"][cuts[0]].items():
        earlier, later = base64.b64decode(data), base64.b64decode(golden["states"][cuts[-1]][run])
        assert state_codec.is_newer(earlier, later)
        rewritten = state_codec.encode(state_codec.decode(run, earlier))
        assert state_codec.is_newer(earlier, rewritten)


def test_the_version_of_the_policy_is_the_same(golden: dict[str, Any]) -> None:
    """Else every run would be judged again at an upgrade, and decision ids would change."""
    assert PolicyDocument.from_mapping(golden["policy"]).version == golden["policy_version"]


def test_other_records_are_read(golden: dict[str, Any]) -> None:
    if "marker" not in golden:
        pytest.skip("that release did not write any")
    policy = PolicyDocument.from_mapping(golden["policy"])
    assert read_policy_record(b"*", golden["policy_record"].encode()) == ("*", policy)
    marker = PolicyApplied.from_record(golden["marker"].encode())
    kept = partition_policy.decode(0, base64.b64decode(golden["partition_policy"]))
    for read in (marker.policy, kept.policy):
        assert PolicyDocument.from_mapping(read) == policy
    assert (kept.tool_calls_offset, kept.compactions_offset) == (marker.tool_calls_offset, marker.compactions_offset)
    assert kept.announced
    assert kept.judged


def test_the_copies_hold_every_kind_of_state() -> None:
    """What a copy does not hold is not tried above."""
    for file in FILES:
        golden = json.loads(file.read_text())
        states = [
            state_codec.decode(run, base64.b64decode(data)) for cut in golden["states"].values() for run, data in cut.items()
        ]
        assert any(state.ended for state in states)
        assert any(state.guard.waiting for state in states)
        assert any(state.guard.armed_at is not None for state in states)
        assert any(state.announced for state in states)
        assert any(state.lost_outcome > 0 for state in states)
        assert any(state.abort_window for state in states)
        assert any(call.sequence is None for state in states for call in state.history.calls)
        assert {len(target) for state in states for target in state.standing} == {0, 1, 2}
        assert {standing.mode for state in states for standing in state.standing.values()} == {"enforce", "shadow"}
        if golden["codec_version"] >= 3:
            assert any(state.history.sealed for state in states)


@pytest.mark.broker
async def test_a_worker_takes_over_from_one_of_an_earlier_release(golden: dict[str, Any], tmp_path: Path) -> None:
    """It finds topics, a changelog with states up to some record and no offsets, and decides only what was not decided."""
    cut = sorted(golden["states"], key=int)[1]
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(golden["policy"]))
    with EmbeddedBroker() as broker:  # one of its own: ids of events without a sequence hold the name of the topic
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            session_timeout=2.0,
            heartbeat_interval=0.5,
            idempotent_producer=False,
            policy_file=policy,
            commit_interval=0.1,
        )
        await create_topics(Connection.from_settings(settings), settings.topics, partitions=1, group=settings.group)
        changelog = f"{settings.group}-runs-changelog"
        states = [(run.encode(), base64.b64decode(data)) for run, data in golden["states"][cut].items()]
        if "partition_policy" in golden:
            states.append((partition_policy.POLICY_KEY, _from_the_beginning(golden)))
        ends: Counter[str] = Counter()
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        try:
            for key, value in states:
                await producer.send_and_wait(changelog, value, key=key, partition=0)
            for record in golden["records"]:
                await producer.send_and_wait(record["topic"], record["value"].encode(), key=record["key"].encode(), partition=0)
                ends[record["topic"]] += 1
        finally:
            await producer.stop()
        with WorkerProcess(settings, log_path=tmp_path / "worker.log") as worker:
            await worker.wait_until_committed([(topic, 0, end) for topic, end in ends.items()])
        found = [item.decision async for item in read_decisions(Connection.from_settings(settings), settings.topics)]
    expected = [said(record) for decisions in golden["decisions"][int(cut) :] for record in decisions]
    assert expected
    by_run: dict[str, list[dict[str, Any]]] = {}
    for decision in found:
        by_run.setdefault(decision.run_id, []).append(decision.model_dump(exclude=FREE))
    for run in ({said["run_id"] for said in expected} | by_run.keys()) - golden.get("left_out", {}).keys():
        assert by_run.get(run, []) == [said for said in expected if said["run_id"] == run]


def _from_the_beginning(golden: dict[str, Any]) -> bytes:
    kept = partition_policy.decode(0, base64.b64decode(golden["partition_policy"]))
    return partition_policy.encode(
        partition_policy.PartitionPolicy(
            policy=kept.policy, tool_calls_offset=0, compactions_offset=0, announced=True, judged=True
        )
    )
