"""The post-compaction guard: a run that goes on with the same call and outcome right after a compaction is ended.

A compaction that is followed by a retry arms the guard for a window of observations. Each outcome is one observation; when the
whole window saw the same call with the same outcome, the run is aborted. Arming again starts afresh.

Compactions travel on a topic of their own, so they may be read before or after the tool calls around them. All that counts is
their sequence: one that is ahead of the tool calls waits, one that comes late is applied to the outcomes after its place.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

from mypy_extensions import mypyc_attr

from streams.detection.history import Call, SignatureKey

NAME = "compaction_loop_persisted"

#: Compactions that may be ahead of the tool calls of their run; beyond it the oldest are forgotten. An honest run has one.
MAX_WAITING = 64

#: Calls kept as evidence of one window.
MAX_EVIDENCE = 30


class Observation(NamedTuple):
    """What the guard sees of an outcome."""

    key: SignatureKey
    digest: bytes


@dataclass(frozen=True, slots=True)
class Abort:
    """The guard's verdict on a run: the window's call, its count and the calls observed (sequence and call id, newest first)."""

    tool: str
    count: int
    evidence: tuple[tuple[int | None, str | None], ...]


@mypyc_attr(acyclic=True)
@final
class Guard:
    """The guard of one run.

    `armed_at` is the sequence of the compaction whose window is open (None when it is closed), `window` the window's size,
    `seen` how many observations it has had, all equal to `first` while `uniform`. `waiting` are the sequences of compactions
    ahead of the tool calls, ascending.
    """

    __slots__ = ("armed_at", "evidence", "first", "seen", "uniform", "waiting", "window")

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.disarm()

    def disarm(self) -> None:
        """Close the window."""
        self.armed_at: int | None = None
        self.window = 0
        self.seen = 0
        self.uniform = True
        self.first: Observation | None = None
        self.evidence: list[tuple[int | None, str | None]] = []

    def arm(self, sequence: int, window: int) -> None:
        """Open a fresh window after the compaction at `sequence`."""
        self.disarm()
        self.armed_at = sequence
        self.window = window

    def wait(self, sequence: int) -> None:
        """Remember a compaction until the tool calls reach it."""
        self.waiting = sorted({*self.waiting, sequence})[-MAX_WAITING:]

    def reach(self, sequence: int | None, window: int | None) -> None:
        """Apply the waiting compactions before `sequence`, all of them when it is None; without a window they are forgotten."""
        if not self.waiting:
            return
        passed = [at for at in self.waiting if sequence is None or at < sequence]
        if passed:
            del self.waiting[: len(passed)]
            if window is not None:
                self.arm(passed[-1], window)

    def remaining(self, window: int) -> int:
        """Return how many observations are left; a compaction that waits counts as a fresh `window`."""
        if self.waiting:
            return window
        return 0 if self.armed_at is None else self.window - self.seen

    def observe(self, call: Call) -> Abort | None:
        """Show the guard the outcome of a call."""
        if self.armed_at is None or call.outcome is None:
            return None
        observation = Observation(call.signature.key, call.outcome.digest)
        if self.first is None:
            self.first = observation
        self.uniform = self.uniform and observation == self.first
        self.seen += 1
        if self.uniform:
            self.evidence = [(call.sequence, call.call_id), *self.evidence][:MAX_EVIDENCE]
        else:
            self.evidence = []
        if self.seen < self.window:
            return None
        abort = Abort(call.signature.key[0], self.seen, tuple(self.evidence)) if self.uniform else None
        self.disarm()
        return abort
