"""The report of a scan as plain data."""

from dataclasses import dataclass, field
from typing import Literal

from streams.reports.timeline import Mark

Verdict = Literal["healthy", "warned", "stopped"]
Level = Literal["warning", "critical"]


@dataclass(slots=True, kw_only=True)
class Spending:
    """Calls, tokens and money (US dollars); tokens and money are None where the log says nothing of them."""

    calls: int = 0
    tokens: int | None = None
    cost: float | None = None

    def spend(self, tokens: int, cost: float | None) -> None:
        """Add what one response of the model took."""
        self.tokens = (self.tokens or 0) + tokens
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def add(self, other: "Spending") -> None:
        """Add another spending."""
        self.calls += other.calls
        if other.tokens is not None:
            self.tokens = (self.tokens or 0) + other.tokens
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopReport:
    """One loop: the calls that go round, and what was said about them.

    `calls` counts the loop's calls between `first` and `last`; `after` what came after `verdict_at`, up to the loop's last call.
    `critical_at` is where a call would have been refused, or the run ended. `detectors` gives the largest count of each;
    `message` is what was first said with the strongest action.
    """

    level: Level
    action: Literal["warn", "block", "abort"]
    detectors: dict[str, int]
    tools: tuple[str, ...]
    message: str
    first: str
    last: str
    verdict_at: str
    critical_at: str | None
    calls: int
    after: Spending
    shadow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run: where it stands, what it did, and the loops in it.

    `after` is what came after the run's first verdict, to its end. Times are milliseconds since 1970.
    """

    run_id: str
    session_id: str | None
    agent_id: str | None
    parent_run_id: str | None
    format: str
    first: str
    last: str
    started: int | None
    ended: int | None
    spent: Spending
    errors: int
    unanswered: int
    compactions: int
    prompts: int
    #: calls that the gateway refused; they are not among those that were made
    refused: int
    verdict: Verdict
    after: Spending
    loops: tuple[LoopReport, ...] = ()
    timeline: tuple[Mark, ...] = ()


_MAX_REASONS = 100


@dataclass(slots=True, kw_only=True)
class LinesNotUnderstood:
    """Lines of which nothing could be made: how many for each reason, and the first places of each."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, place: str, reason: str, *, keep: int = 5) -> None:
        """Count a line; reasons beyond the first hundred are counted together."""
        if reason not in self.counts and len(self.counts) >= _MAX_REASONS:
            reason = "other reasons"
        self.counts[reason] = self.counts.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < keep:
            shown.append(place)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(slots=True, kw_only=True)
class ScanSummary:
    """What a scan found over all runs."""

    files: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    runs: int = 0
    healthy: int = 0
    warned: int = 0
    stopped: int = 0
    loops: int = 0
    #: loops that would only have been warned about
    warnings: int = 0
    spent: Spending = field(default_factory=Spending)
    after: Spending = field(default_factory=Spending)
    copies: int = 0
    not_understood: LinesNotUnderstood = field(default_factory=LinesNotUnderstood)
    problems: list[str] = field(default_factory=list)
    policy_version: str = ""

    def add(self, run: RunReport) -> None:
        """Count a run."""
        self.runs += 1
        self.healthy += run.verdict == "healthy"
        self.warned += run.verdict == "warned"
        self.stopped += run.verdict == "stopped"
        self.loops += len(run.loops)
        self.warnings += sum(1 for loop in run.loops if loop.level == "warning")
        self.spent.add(run.spent)
        self.after.add(run.after)
