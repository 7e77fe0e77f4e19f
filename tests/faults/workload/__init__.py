"""What flows through the workers: seeded, the same for the same numbers."""

from tests.faults.workload.events import Input, RunEvents
from tests.faults.workload.mixture import make_workload

__all__ = ["Input", "RunEvents", "make_workload"]
