"""What was published and decided, and the calls that a gate would have saved."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from schemas.decisions import AsOf, Decision


@dataclass(slots=True)
class RunTally:
    """One run: the offsets of its started calls, ascending, and what was decided about it."""

    calls: list[int] = field(default_factory=list)
    #: the first decision of each kind (action and detector), in the order they came
    verdicts: dict[tuple[str, str], Decision] = field(default_factory=dict)
    #: offsets of calls that were started although their target was blocked
    late: set[int] = field(default_factory=set)
    #: offset after which the run was aborted
    aborted_at: int | None = None

    def call_number(self, as_of: AsOf) -> int:
        """Return how many calls the run had started when a decision was made."""
        return bisect_right(self.calls, as_of.offset)

    @property
    def saved(self) -> int:
        """Calls that were started although they were blocked, or after the run was aborted."""
        end = len(self.calls) if self.aborted_at is None else bisect_right(self.calls, self.aborted_at)
        after_abort = set(self.calls[end:])
        started_blocked = {at for at in self.late if self.calls[bisect_left(self.calls, at) : bisect_right(self.calls, at)]}
        return len(after_abort | started_blocked)


class Tally:
    """All runs, in the order of their first event; the events lie on fresh topics, so their offsets are known beforehand."""

    def __init__(self, *, tool_calls: str) -> None:
        self.runs: defaultdict[str, RunTally] = defaultdict(RunTally)
        self._tool_calls = tool_calls

    def add_call(self, run_id: str, offset: int) -> int:
        """Count a started call of a run and return its number."""
        calls = self.runs[run_id].calls
        calls.append(offset)
        return len(calls)

    def add_decision(self, decision: Decision) -> bool:
        """Take in a decision; tells whether it is the first of its kind for its run. Releases are none."""
        run = self.runs[decision.run_id]
        if decision.action == "release":
            return False
        # Decisions hold as of a tool-call event; one that is as of a compaction has no place among the calls.
        if decision.as_of.topic == self._tool_calls:
            if decision.late:
                run.late.add(decision.as_of.offset)
            if decision.action == "abort" and (run.aborted_at is None or decision.as_of.offset < run.aborted_at):
                run.aborted_at = decision.as_of.offset
        kind = (decision.action, decision.detector)
        first = kind not in run.verdicts
        run.verdicts.setdefault(kind, decision)
        return first

    @property
    def calls(self) -> int:
        """Calls of all runs."""
        return sum(len(run.calls) for run in self.runs.values())

    @property
    def saved(self) -> int:
        """Calls of all runs that a gate would have saved."""
        return sum(run.saved for run in self.runs.values())
