"""What is to go wrong in a worker, as it is handed to its process."""

import json
import os
from dataclasses import asdict, dataclass
from typing import Literal, Self

VARIABLE = "LOOPWARDEN_FAULT_PLAN"

#: Where a worker can be told to fail: around each awaited write, and before it looks whether its partitions are still its own.
POINTS = (
    "before-check",
    "before-dead-letters",
    "during-dead-letters",
    "after-dead-letters",
    "before-misrouted",
    "during-misrouted",
    "after-misrouted",
    "before-decisions",
    "during-decisions",
    "after-decisions",
    "before-states",
    "during-states",
    "before-store",
    "after-store",
    "before-offsets",
    "after-offsets",
)

Action = Literal["kill", "raise", "pause", "lose"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultPlan:
    """The `passing`-th time that a worker comes to `point`, it is killed, raises or is paused (SIGKILL, an exception, SIGSTOP).

    With `lose` it believes that it has written what it was about to write, and has not: to see that the checks notice.

    With `runs_only` writes of policies do not count: those of several partitions are under way at a time, and when a worker is
    paused in one of them, others are past their check.

    `connect_to` maps ports that the broker advertises to those to connect to: a proxy stands in between.
    """

    point: str | None = None
    action: Action = "kill"
    passing: int = 1
    runs_only: bool = False
    connect_to: dict[int, int] | None = None

    def __post_init__(self) -> None:
        if self.point is not None and self.point not in POINTS:
            raise ValueError(f"unknown point {self.point}; one of {', '.join(POINTS)}")

    def environment(self) -> dict[str, str]:
        """Return the variable for the worker's process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        """Read the plan in the worker's process; without one nothing goes wrong."""
        given = json.loads(os.environ.get(VARIABLE, "{}"))
        if given.get("connect_to"):
            given["connect_to"] = {int(port): int(other) for port, other in given["connect_to"].items()}
        return cls(**given)
