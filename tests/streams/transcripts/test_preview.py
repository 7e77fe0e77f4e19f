import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.fingerprints import MISSING
from streams.transcripts.preview import preview

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def test_arguments_are_told_in_a_line() -> None:
    assert preview({"path": "a b\nc", "n": 3, "deep": {"x": [1]}}) == 'path=a b c, n=3, deep={"x": [1]}'
    assert preview("ls  -l") == "ls -l"
    assert preview(None) == preview(MISSING) == ""


@given(values, st.integers(2, 200))
def test_a_preview_is_one_short_line_whatever_was_given(params: Any, width: int) -> None:
    text = preview(params, width=width)
    assert len(text) <= width
    assert len(text.splitlines()) <= 1


def test_a_preview_of_much_costs_little() -> None:
    assert len(preview({"content": "x" * 10_000_000, "list": list(range(100_000))})) == 120
    assert json.dumps(preview({f"key{number}": number for number in range(10_000)}))
