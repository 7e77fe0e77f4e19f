"""Decisions on the wire."""

import pytest
from pydantic import ValidationError

from schemas.cloudevents import InvalidEventError
from schemas.decisions import AsOf, Decision, Origin, Target, decision_id

PLACE = {"topic": "agent.tool-calls.v1", "partition": 3}
AS_OF = AsOf(**PLACE, offset=9, sequence=12, call_id="c", time=1_796_036_400_250)


def some_id(**changed):
    said = {
        "policy_version": "p",
        "run_id": "r",
        "action": "block",
        "target": Target(scope="tool", tool="t"),
        "detector": "d",
        "count": 3,
        "as_of": AS_OF,
    }
    return decision_id(**{**said, **changed})


def decision(**changed) -> Decision:
    said = {
        "decision_id": some_id(),
        "run_id": "r",
        "action": "block",
        "level": "critical",
        "detector": "d",
        "target": Target(scope="call", tool="t", args_hash="0" * 32),
        "count": 3,
        "message": "m",
        "warning_key": "k",
        "policy_version": "p",
        "engine_version": "1",
        "since": Origin(**PLACE, offset=1),
        "as_of": AS_OF,
        "decided_at": 1_796_036_400_999,
    }
    return Decision(**{**said, **changed})


def test_a_decision_read_back_is_the_one_written():
    written = decision()
    assert Decision.from_record(written.to_record(source="s")) == written


def test_times_are_rfc_3339_on_the_wire():
    assert b'"time":"2026-11-30T11:00:00.250Z"' in decision().to_record(source="s")


def test_the_id_depends_on_what_is_said_and_on_nothing_else():
    others = [
        some_id(policy_version="q"),
        some_id(run_id="s"),
        some_id(action="release"),
        some_id(count=4),
        some_id(detector="e"),
        some_id(target=Target(scope="tool", tool="u")),
        some_id(as_of=AS_OF.model_copy(update={"sequence": 13})),
    ]
    assert len({some_id(), *others}) == len(others) + 1
    assert some_id(as_of=AS_OF.model_copy(update={"time": 0, "offset": 77})) == some_id()


def test_without_a_sequence_the_id_names_the_record():
    bare = AS_OF.model_copy(update={"sequence": None})
    assert some_id(as_of=bare) != some_id(as_of=bare.model_copy(update={"offset": 10}))


@pytest.mark.parametrize("fields", [{"scope": "run", "tool": "t"}, {"scope": "tool"}, {"scope": "call", "tool": "t"}])
def test_a_target_has_just_what_its_scope_needs(fields):
    with pytest.raises(ValidationError):
        Target(**fields)


def test_other_records_of_the_topic_are_told_apart():
    marker = decision().to_record(source="s").replace(b"dev.loopwarden.decision.v1", b"dev.loopwarden.policy.applied.v1")
    with pytest.raises(InvalidEventError) as refused:
        Decision.from_record(marker)
    assert refused.value.code == "unknown_type"
