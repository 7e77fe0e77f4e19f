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
    """Remembers the last `limit` keys by their hash, which is enough to tell copies of random ids."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._keys: dict[int, None] = {}
        self._owners: dict[int, int] = {}
        self._limit = limit

    def add(self, *key: Hashable) -> bool:
        """Remember a key; tells whether it is new."""
        digest = hash(key)
        if digest in self._keys:
            return False
        self._keys[digest] = None
        if len(self._keys) > self._limit:
            del self._keys[next(iter(self._keys))]
        return True

    def belongs_to(self, owner: Hashable, *key: Hashable) -> bool:
        """Remember whose a key is; tells whether it is this owner's: the first one to name a key has it."""
        digest = hash(key)
        mine = hash(owner)
        if self._owners.setdefault(digest, mine) != mine:
            return False
        if len(self._owners) > self._limit:
            del self._owners[next(iter(self._owners))]
        return True
