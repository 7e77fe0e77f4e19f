"""Up to which changelog offset a store holds everything."""


class AppliedOffset:
    """The offset of the last changelog record of one partition up to which a store has seen them all.

    Recovery starts after it, so it may only move over records that were seen. Our own writes are appended behind
    whatever is there: when another worker wrote in between (one of us was paused), the own write does not follow on
    what was seen, and the offset stays until a recovery has read the gap.
    """

    __slots__ = ("_offset",)

    def __init__(self, offset: int | None = None) -> None:
        self._offset = offset

    @property
    def offset(self) -> int | None:
        """The last offset seen; None when none was."""
        return self._offset

    def read(self, offset: int) -> None:
        """Move on after reading the changelog in order up to and including `offset`."""
        if self._offset is None or offset > self._offset:
            self._offset = offset

    def wrote(self, first: int, last: int, count: int) -> bool:
        """Move on after an own write of `count` records at `first` to `last`; return whether it followed on what was seen."""
        expected = 0 if self._offset is None else self._offset + 1
        follows = first == expected and last - first + 1 == count
        if follows:
            self._offset = last
        return follows
