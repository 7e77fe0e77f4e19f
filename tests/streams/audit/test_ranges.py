"""Bounds of ranges as people write them."""

import pytest

from schemas.topics import Topics
from streams.audit.ranges import Bound, RangeError, parse_bound

TOPICS = Topics(prefix="eu.")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("eu.agent.tool-calls.v1[3]@1042", Bound("eu.agent.tool-calls.v1[3]@1042", partition=3, offset=1042)),
        ("3:1042", Bound("3:1042", partition=3, offset=1042)),
        ("1042", Bound("1042", offset=1042)),
        ("1796024397146", Bound("1796024397146", time=1796024397146)),
        ("2026-11-30T12:00:00Z", Bound("2026-11-30T12:00:00Z", time=1796040000000)),
        ("2026-11-30T12:00:00.5+01:00", Bound("2026-11-30T12:00:00.5+01:00", time=1796036400500)),
    ],
)
def test_offsets_and_times_are_read(text: str, bound: Bound) -> None:
    assert parse_bound(text, topics=TOPICS) == bound


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-30", "2026-11-30T12:00:00", "-5", "3:", ":5", "3:-1", "1.5", "agent[x]@5", "\u0663:5"]
)
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(RangeError, match=r"neither an offset .* nor a time"):
        parse_bound(text, topics=TOPICS)


def test_another_topic_is_refused() -> None:
    with pytest.raises(RangeError, match=r"ranges are offsets of eu\.agent\.tool-calls\.v1"):
        parse_bound("eu.agent.compactions.v1[0]@5", topics=TOPICS)
