"""What a fault is measured in: how often it was made, what differs afterwards, how long the group needed."""

import statistics
from dataclasses import dataclass, field
from typing import Any

from tests.faults.checking import Differences


@dataclass(slots=True)
class Tally:
    """Adds up the rounds of one fault; times in seconds."""

    times: int = 0
    differences: Differences = field(default_factory=Differences)
    recoveries: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, differences: Differences, *, times: int = 0, recovery: float | None = None) -> None:
        """Add what a scene came to after `times` faults."""
        self.times += times
        self.differences.add(differences)
        if recovery is not None:
            self.recoveries.append(recovery)

    def recovered(self, seconds: float) -> None:
        """Count one fault and how long the group took to commit what was published before it ended."""
        self.times += 1
        self.recoveries.append(seconds)

    def note(self, text: str) -> None:
        """Add something else that was measured."""
        self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `error` says why a fault did not go as it must, and then the numbers mean nothing."""

    fault: str
    broker: str
    tally: Tally
    took: float
    error: str | None = None

    @property
    def good(self) -> bool:
        """Whether the middle columns are zero and nothing else went wrong."""
        return self.error is None and self.tally.differences.none

    def as_json(self) -> dict[str, Any]:
        """Return the row for `build/faults.json`."""
        found, recoveries = self.tally.differences, self.tally.recoveries
        return {
            "fault": self.fault,
            "broker": self.broker,
            "times": self.tally.times,
            "missing": found.missing,
            "extra": found.extra,
            "wrong": found.wrong,
            "recovery_seconds": round(max(recoveries), 2) if recoveries else None,
            "recovery_seconds_median": round(statistics.median(recoveries), 2) if recoveries else None,
            "copies": found.copies,
            "misled_by_copies": found.misled,
            "notes": self.tally.notes,
            "examples": found.examples[:20],
            "error": self.error,
            "took_seconds": round(self.took, 1),
        }
