"""Keys that were met before, in bounded memory."""

from collections.abc import Hashable
from typing import Any

from schemas import json_text

#: About 20 MB when full. Copies stand close to what they are copies of: in the next file, or in the next lines.
_LIMIT = 200_000


def digest(value: Any) -> int:
    """Return a number that stands for a JSON value: copies have the same content, whatever their ids."""
    try:
        return hash(json_text.dumps(value))
    except (TypeError, ValueError):  # nested too deeply to be written
        return 0


class SeenKeys:
    """Remembers keys by their hash, which is enough to tell copies of random ids: at least the last half of `limit`.

    There are two generations: when the young one is full it becomes the old one, which is forgotten. (A dict from which the first
    entry is deleted again and again takes longer and longer to find its first entry.)
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._half = max(1, limit // 2)
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def add(self, *key: Hashable) -> bool:
        """Remember a key; tells whether it is new."""
        number = hash(key)
        if number in self._young or number in self._old:
            return False
        self._remember(number, 0)
        return True

    def belongs_to(self, owner: Hashable, *key: Hashable) -> bool:
        """Remember whose a key is; tells whether it is this owner's: the first one to name a key has it."""
        number, mine = hash(key), hash(owner)
        known = self._young.get(number, self._old.get(number))
        if known is None:
            self._remember(number, mine)
        return known is None or known == mine

    def _remember(self, number: int, owner: int) -> None:
        self._young[number] = owner
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
