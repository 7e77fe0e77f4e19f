"""Decisions as a worker makes them are those of the contract: the same fields, the same bytes, the same ids."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas import decisions, json_text, made_decisions
from schemas.cloudevents import MAX_SEQUENCE, MAX_TIME_MS, MIN_TIME_MS
from schemas.decisions import Decision, decision_id
from schemas.made_decisions import AsOf, EvidenceCall, MadeDecision, Origin, Target

HASHES = st.text("0123456789abcdef", min_size=32, max_size=32)
TEXTS = st.text(max_size=20)
NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.integers(MIN_TIME_MS, MAX_TIME_MS)
CALL = {"sequence": st.none() | st.integers(0, MAX_SEQUENCE), "call_id": st.none() | TEXTS}
PLACE = {"topic": TEXTS, "partition": NUMBERS, "offset": NUMBERS}
TARGETS = st.one_of(
    st.just(Target("run")),
    st.builds(Target, st.just("tool"), TEXTS),
    st.builds(Target, st.just("call"), TEXTS, HASHES),
)
DECISIONS = st.builds(
    MadeDecision,
    decision_id=HASHES,
    run_id=st.text(min_size=1, max_size=20),
    session_id=st.none() | TEXTS,
    agent_id=st.none() | TEXTS,
    action=st.sampled_from(["block", "warn", "release", "abort"]),
    level=st.sampled_from(["warning", "critical"]),
    detector=TEXTS,
    target=TARGETS,
    count=NUMBERS,
    paired_tool=st.none() | TEXTS,
    reason=st.sampled_from([None, "used", "changed"]),
    message=TEXTS,
    warning_key=TEXTS,
    late=st.booleans(),
    mode=st.sampled_from(["enforce", "shadow"]),
    policy_version=TEXTS,
    engine_version=TEXTS,
    since=st.builds(Origin, **PLACE),
    as_of=st.builds(AsOf, **PLACE, **CALL, time=TIMES),
    evidence=st.lists(st.builds(EvidenceCall, **CALL), max_size=4).map(tuple),
)


@given(DECISIONS, st.none() | TIMES)
def test_both_write_the_same_bytes(made: MadeDecision, decided_at: int | None) -> None:
    read = made.as_read().model_copy(update={"decided_at": decided_at})
    record = made.to_record(source="loopwarden/test", decided_at=decided_at)
    assert record == read.to_record(source="loopwarden/test")
    assert Decision.from_record(record) == read


@given(DECISIONS)
def test_what_is_read_says_what_was_made(made: MadeDecision) -> None:
    read = made.as_read()
    assert read.model_dump() == msgspec.structs.asdict(made) | {
        "target": msgspec.structs.asdict(made.target),
        "since": msgspec.structs.asdict(made.since),
        "as_of": msgspec.structs.asdict(made.as_of),
        "evidence": tuple(msgspec.structs.asdict(call) for call in made.evidence),
    }
    assert (str(read.since), str(read.as_of)) == (str(made.since), str(made.as_of))


@given(DECISIONS)
def test_both_have_the_same_id(made: MadeDecision) -> None:
    def id_of(decision: Decision | MadeDecision) -> str:
        return decision_id(
            policy_version=decision.policy_version,
            run_id=decision.run_id,
            action=decision.action,
            target=decision.target,
            detector=decision.detector,
            count=decision.count,
            as_of=decision.as_of,
            mode=decision.mode,
        )

    assert id_of(made) == id_of(made.as_read())


@pytest.mark.parametrize("name", ["Target", "Origin", "AsOf", "EvidenceCall", "Decision"])
def test_the_fields_are_those_of_the_model_in_its_order(name: str) -> None:
    model: type[BaseModel] = getattr(decisions, name)
    struct: Any = MadeDecision if name == "Decision" else getattr(made_decisions, name)
    fields = [field.name for field in msgspec.structs.fields(struct)]
    assert fields == list(model.model_fields)


@pytest.mark.parametrize("struct", [Target, Origin, AsOf, EvidenceCall, MadeDecision])
def test_only_none_is_a_default(struct: Any) -> None:
    """Other defaults would be missing in the record."""
    assert {field.default for field in msgspec.structs.fields(struct)} <= {None, msgspec.NODEFAULT}


@pytest.mark.parametrize("field", ["run_id", "message"])
@given(made=DECISIONS)
def test_half_a_character_is_written_as_an_escape(field: str, made: MadeDecision) -> None:
    """JavaScript strings may hold one, and JSON text can say it."""
    changed = msgspec.structs.replace(made, **{field: "a\ud83d"})
    record = changed.to_record(source="/t", decided_at=0)
    whole = made.to_record(source="/t", decided_at=0)
    written = json_text.loads(record)
    assert written["data"] == json_text.loads(whole)["data"] | {field: "a\ud83d"}
    assert list(written) == list(json_text.loads(whole))
    assert written["data"] == json_text.loads(changed.to_json()) | {"decided_at": "1970-01-01T00:00:00.000Z"}
