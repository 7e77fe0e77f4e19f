"""Whole verifications of topics that real workers judged, and of what was done to them afterwards."""

import asyncio
import time

import orjson
import pytest

from schemas.events import CompactionCompleted, ToolCallFinished, ToolCallStarted
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.audit.planning import Selection, plan
from streams.audit.ranges import RangeError
from streams.detection.engine import ENGINE_VERSION
from streams.intake.outgoing import OutgoingEvent
from tests.streams.audit.conftest import Auditor, Change, Forger, Published, as_text, policy
from tests.streams.processor.conftest import PARTITIONS, Lab

pytestmark = pytest.mark.broker


def busy_runs(lab: Lab, number: int = 6, *, compactions: bool = True) -> list[OutgoingEvent]:
    """Runs that loop, compact, loop again, and partly end; one calls a tool that does not exist."""
    events = []
    for index in range(number):
        run = lab.run(f"run-{index}")
        events += run.loop(25)
        if compactions:
            events += [run.event(CompactionCompleted, will_retry=True)]
        events += run.loop(6, tool="exec", result=f"{index}")
        for step in range(12):
            events += run.call(("ping", "pong")[step % 2], {"n": step % 2}, f"{step % 2}")
        if index == 0:
            for step in range(12):
                events += run.call("nope", {"n": step}, {"error": f"Tool nope not found {step}"})
        if index % 2:
            events += run.ended()
    return events


async def judged(lab: Lab, events: list[OutgoingEvent]) -> None:
    await lab.create()
    await lab.publish(events)
    worker = lab.worker()
    await lab.committed(worker)
    worker.stop()


def decisions(records: list[Published]) -> list[int]:
    """Where the decisions are in a list of records."""
    return [index for index, record in enumerate(records) if record.data is not None]


async def test_what_a_worker_decided_is_found_equal(lab: Lab, auditor: Auditor) -> None:
    events = busy_runs(lab)
    await judged(lab, events)
    tally, findings = await auditor.verify()
    assert findings == [], as_text(findings)
    assert tally.events == len(events)
    assert tally.equal == len({decision.decision_id for decision in await lab.decisions()}) > 100
    assert (tally.not_yet, tally.copies, tally.differences) == (0, 0, 0)
    assert set(tally.not_reproducible) <= {"overtaken"}


async def test_each_removed_added_or_changed_decision_is_named(lab: Lab, forger: Forger) -> None:
    await judged(lab, busy_runs(lab, 3, compactions=False))
    honest = await forger.copy()
    tally, findings = await honest.verify()
    assert findings == []
    total = tally.equal
    assert total > 30

    for choice in (0, total // 2, total - 1):
        removed: list[str] = []

        def without_one(records: list[Published], choice: int = choice, removed: list[str] = removed) -> list[Published]:
            index = decisions(records)[choice]
            data = records[index].data
            assert data is not None
            removed.append(data["decision_id"])
            return records[:index] + records[index + 1 :]

        tally, findings = await (await forger.copy(without_one)).verify()
        assert [(one.kind, one.decision_id) for one in findings] == [("missing", removed[0])], as_text(findings)
        assert tally.equal == total - 1

    added = "f" * 31 + "e"

    def with_another(records: list[Published]) -> list[Published]:
        index = decisions(records)[7]
        data = records[index].data
        assert data is not None
        nowhere = records[index].with_data(decision_id=added[::-1], as_of=data["as_of"] | {"offset": 10**6})
        return [*records[:index], records[index].with_data(decision_id=added), *records[index:], nowhere]

    tally, findings = await (await forger.copy(with_another)).verify()
    assert [(one.kind, one.decision_id) for one in findings] == [("extra", added), ("extra", added[::-1])], as_text(findings)
    assert tally.equal == total

    changes = {
        "count": 99,
        "message": "All is well.",
        "late": True,
        "mode": "shadow",
        "level": "none of the levels",
        "evidence": [],
        "session_id": "another",
        "not_a_field": 1,
    }
    for field, value in changes.items():

        def with_a_change(records: list[Published], field: str = field, value: object = value) -> list[Published]:
            index = next(i for i in decisions(records) if (records[i].data or {}).get("evidence"))
            return [*records[:index], records[index].with_data(**{field: value}), *records[index + 1 :]]

        tally, findings = await (await forger.copy(with_a_change)).verify()
        assert [one.kind for one in findings] == ["different"], as_text(findings)
        assert {difference.path.split("[")[0] for difference in findings[0].fields} == {field}
        assert tally.equal == total - 1


async def test_records_of_the_topic_that_cannot_be_read_are_findings(lab: Lab, forger: Forger) -> None:
    await judged(lab, lab.run("r").loop(25))

    def with_junk(records: list[Published]) -> list[Published]:
        return [Published(0, b"r", b"junk", 1), *records]

    tally, findings = await (await forger.copy(with_junk)).verify()
    assert [one.kind for one in findings] == ["unreadable"]
    assert findings[0].record is not None
    assert findings[0].record.endswith("agent.decisions.v1[0]@0")
    assert tally.differences == 1


async def test_decisions_repeated_after_a_crash_are_one_and_a_copy_that_differs_is_a_difference(lab: Lab, forger: Forger) -> None:
    await judged(lab, lab.run("r").loop(25))

    def twice(records: list[Published]) -> list[Published]:
        again = [record.with_data(decided_at="2031-01-01T00:00:00.000Z") for record in records if record.data]
        return records + again

    tally, findings = await (await forger.copy(twice)).verify()
    assert findings == []
    assert tally.copies == tally.equal > 0

    def twice_with_a_change(records: list[Published]) -> list[Published]:
        again = twice(records)
        return [*again[:-1], again[-1].with_data(count=1)]

    tally, findings = await (await forger.copy(twice_with_a_change)).verify()
    assert [(one.kind, [field.path for field in one.fields]) for one in findings] == [("different", ["count"])]


async def test_an_abort_withdrawn_in_one_order_of_the_topics_is_no_difference(lab: Lab, forger: Forger) -> None:
    """Two compactions: read in time the second contradicts the abort that the first led to; read late it withdraws it."""
    await lab.create()
    run = lab.run("r")
    first = [*run.loop(1), run.event(CompactionCompleted, will_retry=True), *run.loop(2, tool="exec")]
    second = run.event(CompactionCompleted, will_retry=True)
    after = run.loop(1, tool="exec")
    worker = lab.worker()
    await lab.publish([event for event in (*first, *after) if event.topic == lab.settings.topics.compactions])
    await lab.committed(worker)
    await lab.publish([event for event in (*first, *after) if event.topic != lab.settings.topics.compactions])
    await lab.committed(worker)
    await lab.publish([second])
    await lab.committed(worker)
    worker.stop()
    assert [decision.action for decision in await lab.decisions()] == ["abort", "release"]

    now = int(time.time() * 1000)  # brokers take no records from far away times
    late = await forger.copy(times={lab.settings.topics.compactions: now + 1_000_000})
    tally, findings = await late.verify()
    assert (findings, tally.equal, tally.withdrawn) == ([], 2, 0)
    early = await forger.copy(times={lab.settings.topics.compactions: now - 1_000_000})
    tally, findings = await early.verify()
    assert (findings, tally.equal, tally.withdrawn) == ([], 1, 1)


async def test_a_policy_that_changed_midway_is_followed(lab: Lab, auditor: Auditor, forger: Forger) -> None:
    await lab.create()
    runs = [lab.run(f"run-{index}") for index in range(6)]
    worker = lab.worker(policy())
    await lab.publish([event for run in runs for event in run.loop(8)])
    await lab.committed(worker)
    worker.stop()
    strict = policy(warningThreshold=3, criticalThreshold=5)
    worker = lab.worker(strict)
    # Without an event the worker judges the runs again on its own.
    new = PolicyDocument.from_mapping(strict).version
    for name in ("run-0", "run-5"):
        await lab.decision(lambda decision, name=name: decision.run_id == name and decision.policy_version == new)
    await lab.publish([event for run in runs[:3] for event in run.loop(6)])
    await lab.committed(worker)
    worker.stop()
    tally, findings = await auditor.verify()
    assert findings == [], as_text(findings)
    assert tally.equal == len({decision.decision_id for decision in await lab.decisions()})
    assert tally.not_reproducible == {}

    def without(run_id: str) -> Change:
        return lambda records: [
            one for one in records if not (one.data and one.data["run_id"] == run_id and one.data["policy_version"] == new)
        ]

    gone = [d.decision_id for d in await lab.decisions() if d.run_id == "run-0" and d.policy_version == new]
    _, findings = await (await forger.copy(without("run-0"))).verify()
    assert [(one.kind, one.decision_id) for one in findings] == [("missing", one) for one in gone]
    assert len(gone) > 1

    # A run without an event since is judged again sooner or later: nothing tells that it has been.
    tally, findings = await (await forger.copy(without("run-5"))).verify(patience=0.0)
    assert [(one.kind, one.run_id) for one in findings] == [("not_yet", "run-5")]
    assert tally.differences == 0


async def test_without_markers_nothing_is_reproducible_unless_the_policy_is_given(lab: Lab, forger: Forger) -> None:
    await judged(lab, busy_runs(lab, 3, compactions=False))

    def without_markers(records: list[Published]) -> list[Published]:
        return [record for record in records if record.data is not None]

    bare = await forger.copy(without_markers)
    tally, findings = await bare.verify()
    assert findings == []
    assert tally.equal == 0
    assert tally.not_reproducible["policy"] > 30
    tally, findings = await bare.verify(policy=PolicyDocument.from_mapping(policy()))
    assert (findings, tally.not_reproducible) == ([], {})
    assert tally.equal > 30
    tally, findings = await bare.verify(policy=PolicyDocument.from_mapping(policy(warningThreshold=4)))
    assert (findings, tally.equal) == ([], 0)
    assert tally.not_reproducible["policy"] > 30


async def test_decisions_of_another_engine_version_are_set_aside(lab: Lab, forger: Forger) -> None:
    await judged(lab, busy_runs(lab, 2, compactions=False))

    def by_another(records: list[Published]) -> list[Published]:
        return [record.with_data(engine_version="0", count=1) if record.data else record for record in records]

    tally, findings = await (await forger.copy(by_another)).verify()
    assert ENGINE_VERSION != "0"
    assert findings == [], as_text(findings)
    assert tally.equal == 0
    assert tally.not_reproducible["engine"] > 20


async def test_a_run_that_began_before_the_range_is_not_reproducible(lab: Lab, auditor: Auditor) -> None:
    run, later = lab.run("early"), lab.run("later")
    while partition_of(later.run_id, PARTITIONS) != partition_of(run.run_id, PARTITIONS):
        later = lab.run(later.run_id + "x")
    home = partition_of(run.run_id, PARTITIONS)
    await judged(lab, [*run.loop(15), *later.loop(25), *run.loop(10)])
    tally, findings = await auditor.verify(start=(f"{home}:10",))
    assert findings == [], as_text(findings)
    assert tally.not_reproducible["beginning"] > 0
    own = {decision.decision_id for decision in await lab.decisions() if decision.run_id == later.run_id}
    assert tally.equal == len(own)

    tally, findings = await auditor.verify(end=(f"{home}:40",))
    assert findings == [], as_text(findings)
    assert tally.equal > 0
    assert tally.not_reproducible == {}


async def test_one_run_alone_can_be_verified(lab: Lab, auditor: Auditor) -> None:
    await judged(lab, busy_runs(lab, 4, compactions=False))
    tally, findings = await auditor.verify(run_id="run-2")
    assert findings == []
    assert tally.equal == len([d for d in await lab.decisions() if d.run_id == "run-2"]) > 0


async def test_what_a_worker_has_not_judged_yet_is_not_missing(lab: Lab, auditor: Auditor) -> None:
    await judged(lab, lab.run("r").loop(25))
    more = lab.run("s")
    await lab.publish(more.loop(25))
    tally, findings = await auditor.verify(patience=0.0)
    assert {one.kind for one in findings} == {"not_yet"}
    assert tally.not_yet == len(findings) > 0
    assert tally.differences == 0


async def test_dead_letters_misrouted_events_and_duplicates_come_to_nothing(lab: Lab, auditor: Auditor) -> None:
    await lab.create()
    run = lab.run("r")
    events = run.loop(25)
    home = partition_of("r", PARTITIONS)
    topic = lab.settings.topics.tool_calls
    await auditor.send(topic, [(home, b"r", b"junk"), (home, b"other", events[0].value), (1 - home, b"r", events[0].value)])
    await lab.publish([*events, *events[:20]])
    lab.ends[topic, home] += 3  # one of them sent on by the worker
    lab.ends[topic, 1 - home] += 1
    worker = lab.worker()
    await lab.committed(worker)
    worker.stop()
    tally, findings = await auditor.verify()
    assert findings == [], as_text(findings)
    assert (tally.dead_letters, tally.misrouted) == (2, 1)
    assert tally.equal == len({decision.decision_id for decision in await lab.decisions()}) > 10


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"start": ("0:100000",)}, "the partition ends at"),
        ({"start": ("9:0",)}, "partition 9: there are 2"),
        ({"start": ("0:5",), "end": ("0:4",)}, "before it begins at 5"),
        ({"start": ("0:5",), "end": ("0:5",)}, "there is no event in partition 0"),
        ({"start": ("2100-01-01T00:00:00Z",)}, "there is no event in any partition"),
        ({"start": ("yesterday",)}, "neither an offset"),
        ({"start": ("agent.compactions.v1[0]@4",)}, "ranges are offsets of"),
        ({"run_id": "r", "partitions": (0, 1)}, "run r lives in partition"),
    ],
)
async def test_wrong_ranges_say_what_is_wrong(lab: Lab, chosen: dict[str, object], says: str) -> None:
    await lab.create()
    await lab.publish([event for index in range(8) for event in lab.run(f"run-{index}").loop(3)])
    with pytest.raises(RangeError, match=says):
        await asyncio.to_thread(plan, lab.settings, Selection(**chosen))  # type: ignore[arg-type]  # each case its own fields


async def test_events_without_sequences_are_verified_too(lab: Lab, auditor: Auditor) -> None:
    run = lab.run("r")
    events = []
    for _ in range(25):
        for model, more in ((ToolCallStarted, {}), (ToolCallFinished, {"result": "same"})):
            event = run.event(model, tool="read", params={"path": "a"}, **more)
            body = orjson.loads(event.value)
            del body["sequence"], body["time"]
            events.append(OutgoingEvent(topic=event.topic, key=event.key, value=orjson.dumps(body), run_id="r", sequence=None))
    await judged(lab, events)
    tally, findings = await auditor.verify()
    assert findings == [], as_text(findings)
    assert tally.equal > 10


async def test_it_works_beside_workers_that_go_on(lab: Lab, auditor: Auditor) -> None:
    await lab.create()
    worker = lab.worker()
    await lab.publish(lab.run("first").loop(25))

    async def go_on() -> None:
        for number in range(30):
            await lab.publish(lab.run(f"run-{number}").loop(25))

    publishing = asyncio.create_task(go_on())
    verifications = 0
    while not publishing.done() or not verifications:
        tally, findings = await auditor.verify(patience=60.0)
        assert findings == [], as_text(findings)
        verifications += 1
    await publishing
    await lab.committed(worker)
    tally, findings = await auditor.verify()
    assert findings == []
    assert tally.equal == len({decision.decision_id for decision in await lab.decisions()})


async def test_runs_that_a_worker_forgot_when_they_were_idle_begin_afresh(lab: Lab) -> None:
    """By its own times the run goes on at once; by the partition's clock it was idle for longer than it may be."""
    await lab.create()
    run = lab.run("idle")
    home = partition_of("idle", PARTITIONS)
    busy = next(lab.run(f"busy-{number}") for number in range(99) if partition_of(f"busy-{number}", PARTITIONS) == home)
    worker = lab.worker(run_ttl=60.0)
    await lab.publish(run.loop(25))
    await lab.committed(worker)
    busy.clock = 120_000
    async with asyncio.timeout(120):
        while not any(one.run_id == "idle" and one.reason == "changed" for one in await lab.decisions()):
            await lab.publish(busy.loop(1, result="news"))
            await lab.committed(worker)
    await lab.publish(run.loop(25))
    await lab.committed(worker)
    worker.stop()
    decisions = await lab.decisions()
    assert len({one.since.offset for one in decisions if one.run_id == "idle"}) == 2
    given = lab.settings.model_dump() | {"run_ttl": 60.0}
    tally, findings = await Auditor(Settings.model_validate(given)).verify()
    assert findings == [], as_text(findings)
    assert tally.equal == len({one.decision_id for one in decisions})
