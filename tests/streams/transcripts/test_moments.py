from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cloudevents import format_time
from streams.transcripts.moments import milliseconds

NOON = 1_772_452_800_000


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-02T12:00:00Z",
        "2026-03-02T12:00:00.000+00:00",
        "2026-03-02T13:00:00+01:00",
        "2026-03-02T12:00:00",
        "2026-03-02 12:00:00",
        1_772_452_800,
        1_772_452_800.0,
        1_772_452_800_000,
        1_772_452_800_000_000,
        1_772_452_800_000_000_000,
        "1772452800000000000",
    ],
)
def test_a_moment_is_the_same_however_it_is_written(written: Any) -> None:
    assert milliseconds(written) == NOON


@pytest.mark.parametrize("written", [None, True, "", "yesterday", 0, -5, float("nan"), float("inf"), [], {}, "9" * 40, 1e300])
def test_what_is_no_moment_is_none(written: Any) -> None:
    assert milliseconds(written) is None


@given(st.integers() | st.floats() | st.text())
def test_every_moment_can_be_written_as_a_date(written: Any) -> None:
    found = milliseconds(written)
    assert found is None or format_time(found)
