"""JSON5 as it is accepted, and what is said about texts that are none."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.policy.problems import PolicyError
from schemas.policy.syntax import MAX_DEPTH, parse_json5


def refusal(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_json5(text, name="policy.json5")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// a\n{a: 1, /* b */ b: [2,],}", {"a": 1, "b": [2]}),
        ("{'it': 'it\\'s', \"it2\": \"'\"}", {"it": "it's", "it2": "'"}),
        ("[0x1F, +1, -2, .5, 5., 1e2, -0x10]", [31, 1, -2, 0.5, 5.0, 100.0, -16]),
        ("'two \\\nlines \\\r\nof text'", "two lines of text"),
        ("{ñ: 1, $_: 2, \\u0061b: 3, null: 4, if: 5}", {"ñ": 1, "$_": 2, "ab": 3, "null": 4, "if": 5}),
        (r"['\x41\u00e9\n\0\q', '\ud83d\ude00', '\u2028']", ["Aé\n\0q", "😀", "\u2028"]),
        ("\ufeff{\u00a0a:\u20281}", {"a": 1}),
        ("'\u2028'", "\u2028"),
    ],
)
def test_json5_is_read(text: str, value: Any) -> None:
    assert parse_json5(text, name="policy.json5") == value


def test_infinity_and_nan_are_read() -> None:
    infinity, minus, nan = parse_json5("[Infinity, -Infinity, NaN]", name="policy.json5")
    assert (infinity, minus) == (math.inf, -math.inf)
    assert math.isnan(nan)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
@example({"path": "C:\\xavier\\u0041", "n": "1_000"})
def test_all_json_is_json5(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert parse_json5(text, name="policy.json5") == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "policy.json5: the file is empty; write {} for a policy without settings"),
        (" \n", "policy.json5: the file is empty; write {} for a policy without settings"),
        ("// nothing", "policy.json5:1:1: the file has nothing but comments; write {} for a policy without settings"),
        ("\n{a: 1", "policy.json5:2:1: the object that begins here never ends; add the missing }"),
        ("{a: [1", "policy.json5:1:5: the list that begins here never ends; add the missing ]"),
        ("{a: 'x\n'}", "policy.json5:1:5: the string that begins here does not end on its line; add the missing quote"),
        ("{}\n /* x", "policy.json5:2:2: the comment that begins here never ends; add the missing */"),
        ("{a: 1/**}", "policy.json5:1:6: the comment that begins here never ends; add the missing */"),
        ("{a: 1\n b: 2}", "policy.json5:2:2: expected , or }, found b; is a comma missing before it?"),
        ("[1 2]", "policy.json5:1:4: expected , or ], found 2; is a comma missing before it?"),
        ("{a: 1,, b: 2}", "policy.json5:1:7: one comma too many; remove it"),
        ("{a = 1}", "policy.json5:1:4: expected : after the key, found ="),
        ("{a: yes}", "policy.json5:1:5: expected a value, found yes; strings need quotes"),
        ("{a: True}", "policy.json5:1:5: expected a value, found True; strings need quotes"),
        ("{a: tru}", "policy.json5:1:5: expected a value, found tru; strings need quotes"),
        ("{a: }", "policy.json5:1:5: expected a value, found }; strings need quotes"),
        ("{a: 1.2.3}", "policy.json5:1:5: 1.2.3 is no number in JSON5"),
        ("{a: 10_000}", "policy.json5:1:5: 10_000 is no number in JSON5; write it without _"),
        ("{'a_1': '2_0', a_1: 0, /* 3_0 */ b: 4_0}", "policy.json5:1:37: 4_0 is no number in JSON5; write it without _"),
        ("{a: '\\u12'}", "policy.json5:1:10: wrong escape in a string; write a backslash as \\\\"),
        ("{a: '\\ud83d'}", "policy.json5:1:11: half of a surrogate pair in a string; write both halves"),
        (
            "{😀: 1}",
            "policy.json5:1:2: expected a key, found 😀; a key with other characters than letters and digits needs quotes",
        ),
        (
            "{a: 1}\n\n // }\n}",
            "policy.json5:4:1: the document has ended before this; remove what follows, or the bracket too many before it",
        ),
        ("1\n2", "policy.json5:2:1: the document has ended before this; remove what follows, or the bracket too many before it"),
        ("{a: #}", "policy.json5:1:5: expected a value, found #; strings need quotes"),
        ("{a: /}", "policy.json5:1:6: a lone / begins no comment; write // or /*"),
        ("['😀😀' @]", "policy.json5:1:7: expected , or ], found @; is a comma missing before it?"),
    ],
)
def test_a_fault_is_named_with_its_place_and_remedy(text: str, line: str) -> None:
    assert refusal(text) == line


def test_deep_nesting_is_read_up_to_a_bound() -> None:
    assert parse_json5("[" * 150 + "]" * 150, name="policy.json5") is not None
    for depth in (MAX_DEPTH + 1, 1_000_000):
        assert (
            refusal("[" * depth) == f"policy.json5:1:{MAX_DEPTH + 1}: nested more than {MAX_DEPTH} deep; is this a policy file?"
        )


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    assert refusal("{a: \x1b[31m}") == "policy.json5:1:5: expected a value, found \\x1b; strings need quotes"


def error_of(text: str) -> PolicyError | None:
    try:
        parse_json5(text, name="policy.json5")
    except PolicyError as error:
        return error
    return None


@given(st.text(alphabet="{}[]:,'\"\\/*\n abu019xe+-._\u2028\U0001f600", max_size=40))
def test_any_text_is_a_value_or_gets_one_line_with_a_place_in_it(text: str) -> None:
    error = error_of(text)
    for problem in error.problems if error else []:
        assert "\n" not in str(error)
        if text.strip("\ufeff \t\r\n"):
            assert problem.line is not None
            assert 1 <= problem.line <= len(text.split("\n"))
            assert 1 <= (problem.column or 0) <= len(text) + 1


def test_an_unclosed_comment_takes_no_long() -> None:
    """Some libraries take exponential time here."""
    started = time.perf_counter()
    refusal("{} /*" + "\n" * 20_000)
    assert time.perf_counter() - started < 1
