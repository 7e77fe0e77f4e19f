"""What must come out, what came out, and how the two differ. Knows nothing of how faults are made."""

from tests.faults.checking.comparison import Differences, compare
from tests.faults.checking.expected import expect
from tests.faults.checking.log_reader import LogReader
from tests.faults.checking.observed import observe
from tests.faults.checking.outcome import Outcome

__all__ = ["Differences", "LogReader", "Outcome", "compare", "expect", "observe"]
