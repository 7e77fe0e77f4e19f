import json
import math
import traceback
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import json_text

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=())) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def as_doubles(value: object) -> object:
    """The value with numbers as the wire means them and surrogate pairs as the characters they are."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return float(value) if value.bit_length() <= 1023 else None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    if isinstance(value, dict):
        return {as_doubles(key): as_doubles(item) for key, item in value.items()}
    return value


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert as_doubles(json_text.loads(json_text.dumps(value))) == as_doubles(value)


@given(VALUES)
def test_both_readers_read_the_same(value: object) -> None:
    text = json.dumps(value).encode()
    try:
        fast = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    slow, reason = json_text._read_slowly(text)
    assert not reason
    assert repr(slow) == repr(fast) or as_doubles(slow) == as_doubles(fast)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"\xef\xbb\xbf{}",
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b"{} {}",
        b"[1,]",
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"0x10",
        b'"\n"',
        b'"\\x41"',
        b'"\\ud8"',
        b'"\\ud800',
        b"nul",
        b"\xa0{}",
        b"// x\n1",
        "[\u0661]".encode(),
        "[1\u0661]".encode(),
    ],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not JSON: "):
        json_text.loads(text)


@pytest.mark.parametrize("text", [b'{"password":"hunter2"', b'["hunter2\\x"]', b'["hunter2\xff"]', b'{"hunter2":NaN}'])
def test_a_refusal_says_nothing_of_the_text(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not JSON: ") as caught:
        json_text.loads(text)
    assert caught.value.__context__ is None
    assert "hunter2" not in "".join(traceback.format_exception_only(caught.value))
    assert "hunter2" not in repr(vars(caught.value))


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_bottomless_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        json_text.loads(opening * 200_000)


@pytest.mark.parametrize("text", [b'"\\ud83e"', b'["\\udded\\ud83e"]', b'{"\\uD83E":1}', b'"\\ud83e\\u0041"'])
def test_lone_surrogates_are_kept(text: bytes) -> None:
    value = json_text.loads(text)
    assert value == json.loads(text)
    assert json_text.loads(json_text.dumps(value)) == value


def test_escaped_pairs_are_characters() -> None:
    assert json_text.loads(b'["\\ud83e\\udded","\\ud83e"]') == ["\U0001f9ed", "\ud83e"]


@pytest.mark.parametrize("other", ["", ',"\\ud800"'])
def test_integers_beyond_64_bits_are_doubles_whatever_else_stands_in_the_text(other: str) -> None:
    numbers = (2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300)
    read = json_text.loads(f"[{','.join(map(str, numbers))}{other}]".encode())[: len(numbers)]
    assert [type(number) for number in read] == [int, int, float, int, float, float]
    assert read == [2**63, 2**64 - 1, 2.0**64, -(2**63), -(2.0**63), 1e300]


@pytest.mark.parametrize("digits", [b"1" * 310, b"9" * 5000, b"1" * 1_000_000, b"1e400", b"1" * 400 + b".5"])
def test_numbers_beyond_the_largest_double_are_infinite(digits: bytes) -> None:
    assert json_text.loads(b"[" + digits + b",-" + digits + b"]") == [math.inf, -math.inf]


def test_the_largest_double_written_out_is_finite() -> None:
    largest = int(1.7976931348623157e308)
    assert json_text.loads(f'[{largest},"\\ud800"]'.encode())[0] == float(largest)


@pytest.mark.parametrize("half", ["", "\ud83e"])
def test_infinities_and_nan_are_written_as_null(half: str) -> None:
    value = [math.inf, -math.inf, math.nan, half]
    assert json.loads(json_text.dumps(value)) == [None, None, None, half]


def test_integers_of_any_size_are_written() -> None:
    assert json_text.dumps([2**70, 10**5000]) == b"[%d,null]" % 2**70


def test_output_is_compact() -> None:
    assert json_text.dumps({"a": [1, {"b": "\u00e9"}]}) == '{"a":[1,{"b":"\u00e9"}]}'.encode()
    assert json_text.dumps({"a": [1, "\ud83e"]}) == b'{"a":[1,"\\ud83e"]}'


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, b"x", {1, 2}, datetime.now(UTC), object(), {"\ud83e": b"x"}])
def test_what_is_no_json_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        json_text.dumps(value)


def test_values_without_a_bottom_are_not_written() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="nested too deeply"):
        json_text.dumps(circle)
