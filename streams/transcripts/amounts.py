"""Tokens and money as logs write them: numbers, or nothing that counts."""

from collections.abc import Mapping
from typing import Any


def count(value: Any) -> int:
    """Return a number of tokens; 0 for anything that is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def count_or_none(value: Any) -> int | None:
    """Return a number of tokens, None for anything that is none."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def money(value: Any) -> float | None:
    """Return an amount in US dollars, None for anything that is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else None


def total(usage: Any, *members: str) -> int:
    """Return the sum of some members of a usage object."""
    return sum(count(usage.get(member)) for member in members) if isinstance(usage, Mapping) else 0
