"""Times as logs write them, to milliseconds since 1970."""

from datetime import UTC, datetime
from typing import Any

#: Larger numbers are the next smaller unit: as the larger one they would lie in the year 5138.
_LARGEST_SECONDS = 10**11
_LARGEST_MILLISECONDS = 10**14
_LARGEST_MICROSECONDS = 10**17

#: 9999-12-31; what is beyond cannot be written as a date.
_LAST = 253_402_300_799_999


def milliseconds(value: Any) -> int | None:
    """Read a time: ISO 8601 (UTC without an offset), or a number since 1970 whose size tells its unit; None for anything else.

    Units are seconds, milliseconds, microseconds and nanoseconds. A string of digits is a number, as in OTLP.
    """
    if isinstance(value, str):
        if not value.isdecimal():
            return _iso(value)
        if len(value) > 20:
            return None
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    if value <= _LARGEST_SECONDS:
        value = value * 1000
    elif value > _LARGEST_MICROSECONDS:
        value = value / 1_000_000
    elif value > _LARGEST_MILLISECONDS:
        value = value / 1000
    return int(value) if value <= _LAST else None


def _iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
