"""What Python values are as JSON, and which are none."""

import dataclasses
import datetime
import enum
import uuid
from collections import OrderedDict, deque
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.canonical_json import canonical_bytes
from streams.gateway.json_form import NoJsonFormError, json_form


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    inner: Any = None


class Model(BaseModel):
    when: datetime.date


class Odd:
    pass


NUMBER = uuid.UUID(int=7)
FORMS = {
    "dataclass": (Point(1, Point(2)), {"x": 1, "inner": {"x": 2, "inner": None}}),
    "model": (Model(when=datetime.date(2026, 1, 2)), {"when": "2026-01-02"}),
    "enumeration": (Colour.RED, "red"),
    "set": ({"b", "a", 3}, ["a", "b", 3]),
    "tuple and deque": ((1, deque([2])), [1, [2]]),
    "keys": ({1: "a", None: "c", 1.5: "d", Colour.RED: "e"}, {"1": "a", "null": "c", "1.5": "d", "red": "e"}),
    "mapping": (OrderedDict(a=1), {"a": 1}),
    "text of it": ([NUMBER, PurePosixPath("/a"), Decimal("1.50")], [str(NUMBER), "/a", "1.50"]),
    "bytes": (b"\x00\xff", "AP8="),
    "times": (datetime.timedelta(minutes=1), 60.0),
    "exception": (ValueError("no"), {"$error": {"name": "ValueError", "message": "no"}}),
}


@pytest.mark.parametrize("name", FORMS)
def test_plain_values_have_a_form(name: str) -> None:
    value, form = FORMS[name]
    assert json_form(value) == form
    canonical_bytes(form)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "value",
    [Odd(), {"a": [Odd()]}, Odd, lambda: None, (number for number in ()), nested(10_000), circular(), {Odd(): 1}, object()],
    ids=["object", "within", "class", "function", "generator", "deep", "circular", "key", "bare object"],
)
def test_what_could_only_be_guessed_has_none(value: Any) -> None:
    with pytest.raises(NoJsonFormError):
        json_form(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_values_are_their_own_form(value: Any) -> None:
    assert canonical_bytes(json_form(value)) == canonical_bytes(value)
