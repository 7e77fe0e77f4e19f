"""Records of the policies topic, and what they say together."""

import pytest

from schemas.cloudevents import InvalidEventError, parse, structured
from schemas.policy import PolicyDocument
from schemas.policy_records import POLICY_TYPE, PublishedPolicies, policy_record, read_policy_record


def policy(warning: int, **more: object) -> PolicyDocument:
    return PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True, "warningThreshold": warning}}, **more})


def record(data: object, event_type: str = POLICY_TYPE) -> bytes:
    return structured(event_type=event_type, source="/t", event_id="1", data=data)  # type: ignore[arg-type]


def test_a_policy_comes_back_as_it_was_written() -> None:
    written = policy(3, agents={"list": [{"id": "owl", "loopwarden": {"mode": "shadow"}}]})
    value = policy_record("*", written, source="/cli", time=1_790_000_000_000)
    assert read_policy_record(b"*", value) == ("*", written)
    assert parse(value).time == 1_790_000_000_000


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (None, record({}), "key_mismatch"),
        (b" ", record({}), "key_mismatch"),
        (b"\xff", record({}), "key_mismatch"),
        (b"*", b"", "not_json"),
        (b"*", b"[]", "not_cloudevent"),
        (b"*", record({}, "dev.loopwarden.decision.v1"), "unknown_type"),
        (b"*", record([]), "invalid_data"),
        (b"*", record({"tools": {"loopDetection": {"enabld": True}}}), "invalid_data"),
        (b"*", record({"tools": {"loopDetection": {"warningThreshold": -1}}}), "invalid_data"),
        (b"owl", record({"agents": {"list": [{"id": "fox"}]}}), "invalid_data"),
    ],
)
def test_what_a_policy_file_may_not_say_a_record_may_not_say_either(key: bytes | None, value: bytes, code: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        read_policy_record(key, value)
    assert refused.value.code == code


def test_an_agents_own_policy_takes_the_place_of_its_entry_in_the_default_policy() -> None:
    default = policy(9, agents={"list": [{"id": "owl", "tools": {"loopDetection": {"warningThreshold": 5, "historySize": 50}}}]})
    published = PublishedPolicies(policy(7)).take("*", default).take("Owl", policy(3))
    owl = published.combined().for_agent("owl")
    assert (owl.warning_threshold, owl.history_size) == (3, 30)
    assert published.combined().for_agent("fox").warning_threshold == 9


def test_a_tombstone_takes_a_policy_away_again() -> None:
    published = PublishedPolicies(policy(7)).take("*", policy(9)).take("owl", policy(3))
    assert published.take("owl", None).combined().for_agent("owl").warning_threshold == 9
    assert published.take("*", None).combined() == policy(7)
