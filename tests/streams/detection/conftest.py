"""Factories for runs: events by sequence, and a player that applies them."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from streams.detection.engine import apply
from streams.detection.facts import Facts, RunPartition
from streams.detection.history import SignatureKey
from streams.detection.run_state import RunState

PARTITION = RunPartition("agent.tool-calls.v1", 3)


def key(tool: str = "read", args: int = 0) -> SignatureKey:
    return (tool, args.to_bytes(16, "big"))


def digest(outcome: int) -> bytes:
    return outcome.to_bytes(8, "big")


class Run:
    """Makes the events of a run; offsets and sequences count from 1 on over both topics."""

    def __init__(self) -> None:
        self.events: list[Facts] = []

    def _add(self, kind: Any, **facts: Any) -> Facts:
        number = len(self.events) + 1
        event = Facts(kind, PARTITION, offset=number, time=1_000 * number, sequence=number, **facts)
        self.events.append(event)
        return event

    def start(self, tool: str = "read", args: int = 0, *, call_id: str | None = None, poll: bool = False) -> Facts:
        return self._add("started", key=key(tool, args), call_id=call_id, poll=poll)

    def finish(self, tool: str = "read", args: int = 0, *, outcome: int | None = 7, **facts: Any) -> Facts:
        return self._add("finished", key=key(tool, args), outcome=None if outcome is None else digest(outcome), **facts)

    def call(self, tool: str = "read", args: int = 0, *, outcome: int | None = 7, missing: str | None = None) -> None:
        self.start(tool, args)
        self.finish(tool, args, outcome=outcome, unknown_tool=missing)

    def blocked(self, tool: str = "read", args: int = 0) -> Facts:
        return self._add("blocked", key=key(tool, args))

    def compaction(self, *, arms: bool = True) -> Facts:
        return self._add("compaction", arms=arms)

    def end(self) -> Facts:
        return self._add("ended")


def policy(**loop_detection: Any) -> PolicyDocument:
    return PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True, **loop_detection}}})


def play(events: Iterable[Facts], document: PolicyDocument, state: RunState | None = None) -> list[MadeDecision]:
    state = state or RunState("r1")
    return [decision for event in events for decision in apply(state, event, document).decisions]


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def policy_of() -> Callable[..., PolicyDocument]:
    return policy


@pytest.fixture
def played() -> Callable[..., list[MadeDecision]]:
    return play
