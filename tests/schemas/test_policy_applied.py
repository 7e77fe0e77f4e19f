"""Markers of policies on the decisions topic."""

import pytest

from schemas.cloudevents import InvalidEventError, parse
from schemas.policy_applied import PolicyApplied

MARKER = PolicyApplied(
    policy_version="p",
    policy={"tools": {}},
    partition=3,
    tool_calls_offset=7,
    compactions_offset=0,
    engine_version="1",
    applied_at=1_790_000_000_000,
)


def test_a_marker_comes_back_as_it_was_written() -> None:
    assert PolicyApplied.from_record(MARKER.to_record(source="/w")) == MARKER


def test_copies_after_a_crash_have_one_id() -> None:
    ids = {parse(MARKER.model_copy(update=change).to_record(source="/w")).id for change in ({}, {"applied_at": 1})}
    assert len(ids) == 1
    assert MARKER.model_copy(update={"tool_calls_offset": 8}).marker_id not in ids


def test_other_records_of_the_topic_are_told_apart() -> None:
    value = MARKER.to_record(source="/w").replace(b"policy.applied", b"decision")
    with pytest.raises(InvalidEventError) as refused:
        PolicyApplied.from_record(value)
    assert refused.value.code == "unknown_type"
