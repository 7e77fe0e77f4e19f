"""Members of records that should be words and may be anything."""

from typing import Any


def word(value: Any) -> str:
    """Return text as it is, and an empty one for anything else: then it is none of the words that are looked for."""
    return value if isinstance(value, str) else ""
