"""Retry-After."""

from datetime import UTC, datetime

import pytest

from streams.enforcement.retry_after import retry_after_seconds

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("120", 120),
        (" 5 ", 5),
        ("0", 0),
        ("9" * 400, 999_999_999),
        ("-1", 0),
        ("1.5", 0),
        ("\u0663", 0),
        ("soon", 0),
        ("Mon, 30 Nov 2026 12:01:30 GMT", 90),
        ("Mon, 30 Nov 2026 12:01:30 -0000", 90),
        ("Mon, 30 Nov 2026 14:01:30 +0200", 90),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0),
        ("Mon, 99 Nov 2026 11:00:00 GMT", 0),
    ],
)
def test_seconds_and_dates_are_read_and_the_rest_asks_for_nothing(value: str | None, seconds: float) -> None:
    assert retry_after_seconds(value, now=NOW) == seconds
