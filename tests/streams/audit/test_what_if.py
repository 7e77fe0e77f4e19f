"""The same events under two policies."""

from collections import Counter
from collections.abc import Callable

import pytest

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.audit import InputReader, InputRecord, Replayer
from streams.audit.what_if import Change, Difference, WhatIf
from streams.detection.facts import RunPartition
from tests.streams.audit.conftest import policy
from tests.streams.audit.made_traffic import traffic

SETTINGS = Settings()
TOPICS = SETTINGS.topics
REFERENCE = PolicyDocument.from_mapping(policy())
STRICT = PolicyDocument.from_mapping(policy(warningThreshold=5, criticalThreshold=8, globalCircuitBreakerThreshold=12))

Tried = tuple[Difference, list[Change]]


@pytest.fixture(scope="module")
def tried() -> Callable[[PolicyDocument, PolicyDocument], Tried]:
    """Try a policy in place of another on 30,000 events."""
    reader = InputReader(settings=SETTINGS, partition=0, partitions=1)
    offsets: Counter[str] = Counter()
    events = []
    for made in traffic(30_000, TOPICS):
        record = InputRecord(made.topic, 0, offsets[made.topic], 0, made.key, made.value)
        offsets[made.topic] += 1
        event = reader.read(record)
        assert event is not None
        events.append(event)

    def work(before: PolicyDocument, after: PolicyDocument) -> Tried:
        home = RunPartition(TOPICS.tool_calls, 0)
        trial = WhatIf(Replayer(before, partition=home), Replayer(after, partition=home))
        changes = [change for event in events for change in trial.feed(event, status="completed")]
        return trial.difference, changes + list(trial.finish())

    return work


MIRRORED = {"gained": "lost", "lost": "gained", "earlier": "later", "later": "earlier"}


def test_there_and_back_are_mirror_images(tried: Callable[..., Tried]) -> None:
    there, changes = tried(REFERENCE, STRICT)
    back, others = tried(STRICT, REFERENCE)
    assert there.changes["gained"] > 10
    assert there.changes["lost"] > 0
    assert there.changes["earlier"] > 10

    def plain(change: Change) -> tuple[object, ...]:
        return change.kind, change.run_id, change.action, change.detector, change.tool, change.before, change.after

    mirrored = sorted((MIRRORED[c.kind], c.run_id, c.action, c.detector, c.tool, c.after, c.before) for c in others)
    assert sorted(map(plain, changes)) == mirrored  # type: ignore[type-var]  # kinds and runs are unique enough to sort by
    assert there.calls_saved == -back.calls_saved > 0
    for mine, theirs in ((there, back), (back, there)):
        assert mine.calls_stopped["after"] == theirs.calls_stopped["before"]
        assert mine.ended_well_stopped["after"] == theirs.ended_well_stopped["before"]
        assert mine.runs_stopped["after"] == theirs.runs_stopped["before"]
        assert all(
            mine.by_detector[f"gained:{name}"] == theirs.by_detector[f"lost:{name}"] for name in ("ping_pong", "generic_repeat")
        )
    assert (there.events, there.runs, there.unchanged) == (back.events, back.runs, back.unchanged)


def test_the_same_policy_changes_nothing(tried: Callable[..., Tried]) -> None:
    difference, changes = tried(STRICT, PolicyDocument.from_mapping(STRICT.to_mapping()))
    assert changes == []
    assert difference.calls_saved == 0
    assert difference.unchanged > 100


def test_shadow_mode_saves_no_calls(tried: Callable[..., Tried]) -> None:
    shadow = PolicyDocument.from_mapping(STRICT.to_mapping() | {"loopwarden": {"mode": "shadow"}})
    difference, _ = tried(PolicyDocument.from_mapping({}), shadow)
    assert difference.changes["gained"] > 10
    assert difference.calls_stopped["after"] == 0
    assert difference.ended_well_stopped["after"] == 0


def test_numbers_of_partitions_add_up(tried: Callable[..., Tried]) -> None:
    one, _ = tried(REFERENCE, STRICT)
    two, _ = tried(STRICT, REFERENCE)
    both = Difference()
    both.add(one)
    both.add(two)
    assert both.calls_saved == 0
    assert all(number == 0 for number in both.calls_saved_by_tool.values())
    assert both.changes["gained"] == one.changes["gained"] + two.changes["gained"]
