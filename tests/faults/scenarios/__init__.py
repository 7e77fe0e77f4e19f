"""One module per kind of fault; importing this puts them all into the catalogue."""

from tests.faults.scenarios import (
    broker_outages,
    fuzzing,
    kills,
    membership,
    pauses,
    policy_changes,
    producer_errors,
    soak,
    start_up,
    states,
)

__all__ = [
    "broker_outages",
    "fuzzing",
    "kills",
    "membership",
    "pauses",
    "policy_changes",
    "producer_errors",
    "soak",
    "start_up",
    "states",
]
