import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transcripts.json_values import BrokenJsonError, JsonCursor

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=20)
    | st.sampled_from(['"', "\\", '\\"', "]}", "\n"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


class Dribble(io.BytesIO):
    """Gives a few bytes at a time, as a pipe may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(3, size) if size and size > 0 else 3)


def taken(file: io.BytesIO) -> list[Any]:
    cursor, found = JsonCursor(file), []
    while cursor.peek():
        found.append(cursor.value())
    return found


@given(st.lists(values, max_size=5), st.sampled_from([None, 1]), st.sampled_from(["\n", " ", "\r\n\t"]))
def test_values_one_after_the_other_come_back_however_few_bytes_are_read_at_once(
    wanted: list[Any], indent: int | None, between: str
) -> None:
    text = between.join(json.dumps(value, indent=indent) for value in wanted).encode()
    assert taken(Dribble(text)) == wanted
    assert taken(io.BytesIO(text)) == wanted


@given(values, st.data())
def test_a_text_that_breaks_off_is_told_and_nothing_hangs(value: Any, data: st.DataObject) -> None:
    text = json.dumps({"a": [value]}).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(BrokenJsonError):
        JsonCursor(Dribble(text[:cut])).value()


def test_a_value_that_is_skipped_is_counted_in_bytes_and_lines() -> None:
    cursor = JsonCursor(Dribble(b'{"a": "x\\"]",\n "b": [1]}\n\n 7'))
    assert cursor.skip_value() == 24
    assert cursor.peek() == b"7"
    assert (cursor.line, cursor.offset) == (4, 27)
