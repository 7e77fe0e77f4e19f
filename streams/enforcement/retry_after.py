"""The header Retry-After (RFC 9110, section 10.2.3)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(value: str | None, *, now: datetime) -> float:
    """Return the wait in seconds that a Retry-After asks for; 0 when there is none, it is past, or it cannot be read."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])  # a longer number is some thirty years and more in any case
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:  # "-0000": UTC, of unknown origin
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
