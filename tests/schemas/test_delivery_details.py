from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.canonical_json import MAX_DEPTH
from schemas.delivery_details import VOLATILE_KEYS, without_volatile

KEYS = st.sampled_from(["a", "id", "text", "direction", "conversation", "messageId", "ts", "receipt"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
)


def keys_of(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set()


@given(VALUES)
def test_no_volatile_key_is_left_and_nothing_else_is_lost(value: Any) -> None:
    left = without_volatile(value)
    assert not keys_of(left) & VOLATILE_KEYS
    assert without_volatile(left) == left
    if not keys_of(value) & (VOLATILE_KEYS | {"id"}):
        assert left == value


@pytest.mark.parametrize("key", sorted(VOLATILE_KEYS))
def test_each_volatile_key_goes_at_any_depth(key: str) -> None:
    details = {"a": 1, key: "v", "b": [{key: {"deep": 1}}, [{key: None, "c": 2}]]}
    assert without_volatile(details) == {"a": 1, "b": [{}, [{"c": 2}]]}


@pytest.mark.parametrize("key", ["id", "ids", "message", "messageID", "MessageId", "sent_at", "updatedAt", "threadId", "file"])
def test_other_keys_stay(key: str) -> None:
    assert without_volatile({key: "v"}) == {key: "v"}


@pytest.mark.parametrize("sign", [{"direction": "out"}, {"senderId": "s"}, {"accountId": ""}, {"conversation": {}}])
def test_the_id_of_a_delivered_message_goes(sign: dict[str, Any]) -> None:
    assert without_volatile([{"id": "1", "text": "hi", **sign}]) == [{"text": "hi", **sign}]


@pytest.mark.parametrize(
    "value",
    [
        {"id": "1", "text": "hi"},
        {"id": 1, "text": "hi", "direction": "out"},
        {"id": "1", "direction": "out"},
        {"id": "1", "text": None, "direction": "out"},
        {"id": "1", "text": "hi", "direction": 1},
        {"id": "1", "text": "hi", "conversation": "c"},
        {"id": "1", "text": "hi", "conversation": ["c"]},
    ],
)
def test_the_id_of_anything_else_stays(value: dict[str, Any]) -> None:
    assert without_volatile(value) == value


def test_the_given_value_is_left_alone() -> None:
    details = {"ts": 1, "l": [{"ts": 2}]}
    without_volatile(details)
    assert details == {"ts": 1, "l": [{"ts": 2}]}


def test_bottomless_details_are_refused() -> None:
    value: Any = {}
    for _ in range(MAX_DEPTH):
        value = {"a": [value]}
    with pytest.raises(ValueError, match="nested more than"):
        without_volatile(value)
