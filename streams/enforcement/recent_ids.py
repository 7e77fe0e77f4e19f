"""The decision ids of late, so that copies are known."""


class RecentIds:
    """A bounded set that forgets its oldest members first; an id takes about 150 bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[bytes, None] = {}

    def add(self, decision_id: str) -> None:
        """Remember an id, as the newest."""
        key = bytes.fromhex(decision_id)
        self._ids.pop(key, None)
        self._ids[key] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, decision_id: str) -> bool:
        return bytes.fromhex(decision_id) in self._ids

    def __len__(self) -> int:
        return len(self._ids)
