"""Places in JSON5 texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy.positions import Lines, Place, find_places

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=15,
)
FILLERS = ["", " ", "\n", "\t/* , ] } \" ' // */", "// { [ : ' \"\n", "\u00a0\ufeff", "/**/", "/***/\r\n"]


def written(value: Any, filler: Any) -> str:
    """Write a value as JSON with something between all tokens."""
    if isinstance(value, dict):
        inside = ",".join(
            f"{filler()}{json.dumps(key)}{filler()}:{filler()}{written(item, filler)}{filler()}" for key, item in value.items()
        )
        return f"{{{inside}{filler()}}}"
    if isinstance(value, list):
        return f"[{','.join(f'{filler()}{written(item, filler)}{filler()}' for item in value)}{filler()}]"
    return json.dumps(value)


def leaves(value: Any, place: Place) -> list[tuple[Any, int]]:
    if isinstance(value, dict):
        assert set(value) == set(place.members)
        return [leaf for key, item in value.items() for leaf in leaves(item, place.members[key][-1][1])]
    if isinstance(value, list):
        assert len(value) == len(place.items)
        return [leaf for item, inner in zip(value, place.items, strict=True) for leaf in leaves(item, inner)]
    return [(value, place.offset)]


@given(JSON_VALUES, st.data())
def test_every_value_is_found_where_it_is_written(value: Any, data: st.DataObject) -> None:
    text = written(value, lambda: data.draw(st.sampled_from(FILLERS)))
    for leaf, offset in leaves(value, find_places(text)):
        assert text.startswith(json.dumps(leaf), offset)


def test_all_spellings_of_a_key_are_found() -> None:
    places = find_places("{plain: 1, 'single': 2, \"double\": 3, \\u0065scaped: 4, 'tw\\\no lines': 5, $_9: 6}")
    assert list(places.members) == ["plain", "single", "double", "escaped", "two lines", "$_9"]


def test_a_key_given_twice_has_both_places() -> None:
    places = find_places("{a: 1,\n a: {b: 2}}")
    assert [offset for offset, _ in places.members["a"]] == [1, 8]
    assert places.at(("a", "b")).offset == 15
    assert places.key_offset(("a", "b")) == 12


def test_any_depth_is_read_without_recursion() -> None:
    assert find_places("[" * 100_000 + "]" * 100_000).offset == 0


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("ab", 0, (1, 1)),
        ("ab", 2, (1, 3)),
        ("a\nb", 2, (2, 1)),
        ("a\r\nb", 3, (2, 1)),
        ("a\rb", 2, (2, 1)),
        ("😀b", 1, (1, 2)),
        ("\n\n", 2, (3, 1)),
    ],
)
def test_lines_and_columns_count_from_one(text: str, offset: int, expected: tuple[int, int]) -> None:
    assert Lines(text).locate(offset) == expected
