import json
import math
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.canonical_json import MAX_DEPTH, canonical_bytes, canonical_bytes_slowly

# Often keys that sort differently by code points and by UTF-16 code units, and halves of characters.
TEXTS = (
    st.text(st.sampled_from('a\u00e9\ue000\uff5e\U0001f9ed\U0001f30d\ud83e\udded"\\\n\x7f\u2028.:,-e0123456789'), max_size=6)
    | st.text()
)
NUMBERS = (
    st.integers(min_value=-(2**70), max_value=2**70)
    | st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 10**15, 10**16, 10**400])
    | st.floats()
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


def nested(levels: int, innermost: Any, *, key: str | None = None) -> Any:
    value = innermost
    for _ in range(levels):
        value = [value] if key is None else {key: value}
    return value


@given(VALUES)
@example({"\U0001f9ed": 1, "\uff5e": 2})
@example({"a": [{"b": [1, 2.0]}]})
@example([[2**53 + 1]])
@example(1.0)
def test_fast_and_slow_path_yield_the_same_bytes(value: Any) -> None:
    assert canonical_bytes(value) == canonical_bytes_slowly(value)


@given(VALUES)
def test_bytes_are_those_of_the_rfc8785_package_wherever_it_gives_any(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        return
    except UnicodeEncodeError:  # a lone surrogate in a key
        return
    assert canonical_bytes(value) == expected


@given(VALUES)
def test_reading_and_writing_again_changes_nothing(value: Any) -> None:
    written = canonical_bytes(value)
    assert canonical_bytes(json.loads(written)) == written


@given(st.dictionaries(TEXTS, VALUES, min_size=2, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical_bytes(dict(items)) == canonical_bytes(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # How RFC 8785 has numbers printed: its appendix B is about these corners of ECMAScript's Number::toString.
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-25.0, "-25"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (-9007199254740992.0, "-9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e23, "1e+23"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e-6, "0.000001"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (1.25e-5, "0.0000125"),
        (1e-7, "1e-7"),
        (333333333.3333332, "333333333.3333332"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.inf, "null"),
        (-math.inf, "null"),
        (math.nan, "null"),
        # Integers are doubles.
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (2**53 + 3, "9007199254740996"),
        (-(2**63), "-9223372036854776000"),
        (2**64, "18446744073709552000"),
        (10**21, "1e+21"),
        (10**400, "null"),
        (True, "true"),
        (None, "null"),
        # Strings: only quote, backslash and control characters are escaped, these with the short forms where there are any.
        ("\b\t\n\f\r\x00\x1f\x7f", '"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f"'),
        ('"\\/', '"\\"\\\\/"'),
        ("\u20ac\u2028\ufeff\U0001f600", '"\u20ac\u2028\ufeff\U0001f600"'),
        ("\ud83e\n\u00e9", '"\\ud83e\\n\u00e9"'),
        ("\udded\ud83e", '"\\udded\\ud83e"'),
        ("\ud83e\udded", '"\U0001f9ed"'),
        # Keys by UTF-16 code units: D83C (of U+1F30D) before E000 before FF5E.
        (
            {"\uff5e": 1, "\U0001f30d": 2, "\ue000": 3, "\r": 4, "1": 5, "\u0080": 6, "\u20ac": 7},
            '{"\\r":4,"1":5,"\u0080":6,"\u20ac":7,"\U0001f30d":2,"\ue000":3,"\uff5e":1}',
        ),
        ({"\ud83e": 1, "\U0001f9ed": 2, chr(0xDDED): 3}, '{"\\ud83e":1,"\U0001f9ed":2,"\\udded":3}'),
        ({"b": [], "a": {}, "": [[]]}, '{"":[[]],"a":{},"b":[]}'),
        ((1, ("a", 2.5)), '[1,["a",2.5]]'),
    ],
)
@pytest.mark.parametrize("write", [canonical_bytes, canonical_bytes_slowly])
def test_known_values(write: Any, value: Any, text: str) -> None:
    assert write(value) == text.encode()
    assert write([value]) == f"[{text}]".encode()
    assert write({"k": value}) == f'{{"k":{text}}}'.encode()


def test_every_character_of_the_bmp_is_printed_as_rfc_8785_has_it() -> None:
    characters = "".join(chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000)
    assert canonical_bytes(characters) == rfc8785.dumps(characters)


@pytest.mark.parametrize("innermost", [[], [1.5], ["\ud83e"], {"\U0001f9ed": 1}])
@pytest.mark.parametrize("key", [None, "a", "\U0001f9ed"])
def test_the_depth_limit_does_not_depend_on_the_content(innermost: Any, key: str | None) -> None:
    deepest = nested(MAX_DEPTH - 1, innermost, key=key)
    assert canonical_bytes(deepest) == canonical_bytes_slowly(deepest)
    with pytest.raises(ValueError, match="nested more than 256 levels deep"):
        canonical_bytes(nested(MAX_DEPTH, innermost, key=key))


def test_circles_and_bottomless_values_are_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    for value in (circle, nested(100_000, 1)):
        with pytest.raises(ValueError, match="nested more than"):
            canonical_bytes(value)


class Colour(Enum):
    RED = "red"


@dataclass
class Boat:
    name: str


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        {1, 2},
        datetime.now(UTC),
        uuid.uuid4(),
        Boat("Elsa"),
        Colour.RED,
        object(),
        {1: "a"},
        {None: "a"},
        {"a": 1, 2: 3},
        {Colour.RED: 1},
    ],
)
def test_what_is_no_json_value_is_refused_wherever_it_stands(value: Any) -> None:
    for place in (value, [value], {"k": value}, [1.5, "\ud83e", value]):
        with pytest.raises(TypeError):
            canonical_bytes(place)


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    UP = "up"


class Text(str):
    __slots__ = ()


class Real(float):
    __slots__ = ()


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Level.HIGH, "3"),
        (Word.UP, '"up"'),
        ({Word.UP: Text("x")}, '{"up":"x"}'),
        (Real(2.0), "2"),
        (Point(1, 2), "[1,2]"),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
    ],
)
def test_subclasses_count_as_their_bases(value: Any, text: str) -> None:
    assert canonical_bytes(value) == canonical_bytes_slowly(value) == text.encode()
