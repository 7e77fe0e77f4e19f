"""The list of faults: scenarios put themselves into it."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.making.brokers import Broker, Kind
from tests.faults.scene import Scene
from tests.faults.tally import Tally


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What a scenario works with: a broker, a folder, whether it has hours or minutes, and where it puts its numbers.

    `quick` is what pytest runs: the same code, fewer rounds.
    """

    broker: Broker
    folder: Path
    long: bool
    quick: bool
    tally: Tally

    def scene(self, **options: Any) -> AbstractAsyncContextManager[Scene]:
        """Make a group of workers on topics of its own."""
        return Scene(self.broker, self.folder, **options)

    def choose(self, *, quick: int, ci: int, long: int) -> int:
        """Return the number for the mode."""
        return long if self.long else quick if self.quick else ci


Scenario = Callable[[Bench], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A scenario, its name in the table, the brokers that can do it, and those on which pytest runs it too."""

    name: str
    scenario: Scenario
    brokers: Sequence[Kind]
    in_pytest: Sequence[Kind]


FAULTS: dict[str, Fault] = {}


def fault(
    name: str,
    *,
    brokers: Sequence[Kind] = ("embedded", "kafka"),
    in_pytest: Sequence[Kind] = (),
) -> Callable[[Scenario], Scenario]:
    """Put a scenario into the list."""

    def put(scenario: Scenario) -> Scenario:
        FAULTS[name] = Fault(name=name, scenario=scenario, brokers=brokers, in_pytest=in_pytest)
        return scenario

    return put
