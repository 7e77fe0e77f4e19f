"""Which offsets of a partition are handled, when they are handled in any order."""


class OffsetLedger:
    """Offsets that were read and those of them that are done; `position` is the offset that may be committed.

    Offsets that never come (compaction, transaction markers, retention) are taken for handled.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # offset: how many were read before it; ascending, as offsets are read
        self._read = 0
        self._end: int | None = None

    def read(self, offset: int) -> None:
        """Take note of the next record. A smaller offset than the last one means that the topic was made anew."""
        if self._end is not None and offset < self._end:
            self._open.clear()
        self._open[offset] = self._read
        self._read += 1
        self._end = offset + 1

    def done(self, offset: int) -> None:
        """Take note that a record is handled for good."""
        self._open.pop(offset, None)

    @property
    def position(self) -> int | None:
        """The first offset that is not handled; None before anything was read."""
        return next(iter(self._open), self._end)

    @property
    def unhandled(self) -> int:
        """How many records were read and are not handled."""
        return len(self._open)

    @property
    def ahead(self) -> int:
        """How many handled records stand behind the first unhandled one: after a crash they are read again."""
        return self._read - next(iter(self._open.values())) - len(self._open) if self._open else 0
