"""What is told from the bytes of a decision."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cloudevents import MAX_TIME_MS, MIN_TIME_MS
from schemas.made_decisions import AsOf, EvidenceCall, MadeDecision, Target
from streams.audit import InputRecord
from streams.audit.wire_form import digest_of_bytes, in_wire_form
from tests.streams.audit.test_comparison import FULL, decision

RECORD = FULL.to_record(source="worker", decided_at=1_800_000_000_123)

#: What may be another in two records of one decision; the attributes belong to the event.
UNCOMPARED = (b'"source":"worker"', b'"subject":"r"', b'"partitionkey":"r"')


def told(value: bytes, key: bytes | None = b"r", headers: tuple[tuple[str, bytes], ...] = ()) -> bytes | None:
    found = in_wire_form(InputRecord("d", 0, 5, 6, key, value, headers))
    return None if found is None else found.digest


@pytest.mark.parametrize("one", [FULL, decision(1), decision(2, message="Zwölf \U0001f642 \u2028 times", evidence=())], ids=str)
@pytest.mark.parametrize("decided_at", [None, 0, 1_800_000_000_123, 253_402_300_799_999])
def test_a_decision_of_any_worker_at_any_time_has_the_digest_of_the_recomputed_one(
    one: MadeDecision, decided_at: int | None
) -> None:
    assert told(one.to_record(source="some worker", decided_at=decided_at)) == digest_of_bytes(one)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.builds(
        lambda text, count, call_id, sequence, time, evidence: decision(
            count,
            run_id=f"r{text}",
            message=text,
            warning_key=f'{text},"time":{time}}}',
            target=Target(scope="tool", tool=text),
            as_of=AsOf(topic=text, partition=0, offset=7, sequence=sequence, call_id=call_id, time=time),
            evidence=tuple(EvidenceCall(sequence=sequence, call_id=text) for _ in range(evidence)),
        ),
        TEXT,
        st.integers(0, 2**63 - 1),
        st.none() | TEXT,
        st.none() | st.integers(0, 2**63 - 1),
        st.integers(MIN_TIME_MS, MAX_TIME_MS),
        st.integers(0, 3),
    )
)
def test_the_digest_is_that_of_the_bytes_that_a_worker_writes_whatever_is_in_them(one: MadeDecision) -> None:
    value = one.to_record(source="some worker", decided_at=1_800_000_000_123)
    assert told(value, one.run_id.encode()) == digest_of_bytes(one)


def test_head_says_what_the_decision_is_about() -> None:
    found = in_wire_form(InputRecord("d", 0, 5, 6, b"r", RECORD))
    assert found is not None
    head = found.head
    assert (head.decision_id, head.run_id, head.action, head.target.scope) == (FULL.decision_id, "r", "block", "call")
    assert (head.since.offset, head.as_of.offset) == (100, 101)


@given(st.data())
def test_no_change_of_any_byte_goes_unseen(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(RECORD)))
    length = data.draw(st.integers(0, 3))
    instead = data.draw(st.one_of(st.binary(max_size=3), st.text('",:{}[] 0\\', max_size=3).map(str.encode)))
    changed = RECORD[:place] + instead + RECORD[place + length :]
    if changed == RECORD:
        return
    ours = orjson.loads(RECORD)
    if told(changed) == digest_of_bytes(FULL):
        theirs = orjson.loads(changed)
        for name in ("source", "subject", "partitionkey"):
            ours[name] = theirs[name]
        assert theirs == ours


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"junk",
        RECORD[:-1],
        RECORD + b" ",
        RECORD + b"}",
        RECORD.replace(b'"count":20', b'"count":21,"count":20').replace(b'","data":{', b'","data": {'),
        RECORD[:-1] + b',"data":{}}',
        RECORD[:-1] + b',"extra":1}',
        b'{"data":' + RECORD + b"}",
        RECORD.replace(b',"data":{', b',"data":{"count":99},"data":{'),
        RECORD.replace(b',"data":{', b',"another":1,"data":{'),
        RECORD.replace(b"decision.v1", b"decision.v2"),
        RECORD.replace(b'"specversion":"1.0"', b'"specversion":"1.1"'),
        RECORD.replace(b'"source":"worker"', b'"source":""'),
        RECORD.replace(b'"source":"worker"', b'"source":"\xff"'),
        RECORD.replace(b"2027", b"2028", 1),
    ],
)
def test_any_other_form_is_left_to_be_read(value: bytes) -> None:
    assert value != RECORD
    assert told(value) is None


@pytest.mark.parametrize(
    ("key", "headers"), [(None, ()), (b"other", ()), (b"r", (("content-type", b"application/cloudevents+json"),))]
)
def test_a_key_that_does_not_fit_and_headers_are_left_to_be_read(key: bytes | None, headers: Any) -> None:
    assert told(RECORD) is not None
    assert told(RECORD, key, headers) is None
