"""A bound on how many lines of a kind are logged, so that hostile input cannot fill the disk."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class LineLimit(Generic[K]):
    """At most `lines` lines of a kind in each `interval` (seconds); the others are counted.

    Nothing is lost from sight: `left_out()` tells how many of which kind were not logged, once their interval is over. There must
    be few kinds.
    """

    def __init__(self, *, lines: int, interval: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._interval = interval
        self._clock = clock
        #: Per kind: when its interval began, and how many lines were asked for in it.
        self._windows: dict[K, tuple[float, int]] = {}
        self._left_out: dict[K, int] = {}

    def allows(self, kind: K) -> bool:
        """Ask for one line; False when it is to be left out."""
        now = self._clock()
        began, asked = self._windows.get(kind, (now, 0))
        if now - began >= self._interval:
            began, asked = now, 0
        self._windows[kind] = (began, asked + 1)
        if asked < self._lines:
            return True
        self._left_out[kind] = self._left_out.get(kind, 0) + 1
        return False

    def left_out(self, *, at_once: bool = False) -> dict[K, int]:
        """Return how many lines of each kind were left out, and begin to count anew.

        Kinds whose interval is not over wait for its end, unless `at_once`.
        """
        now = self._clock()
        over = {kind for kind, (began, _) in self._windows.items() if at_once or now - began >= self._interval}
        for kind in over:
            del self._windows[kind]
        return {kind: self._left_out.pop(kind) for kind in list(self._left_out) if kind in over}
