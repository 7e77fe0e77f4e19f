"""What is handed over."""

from collections.abc import Callable

import pytest

from schemas.decisions import Decision
from streams.enforcement.decision_filter import DecisionFilter

Make = Callable[..., Decision]


@pytest.mark.parametrize(
    ("changes", "through"),
    [
        ({}, True),
        ({"action": "warn", "level": "warning"}, True),
        ({"action": "abort"}, True),
        ({"late": True}, True),
        ({"action": "release", "reason": "changed"}, False),
        ({"mode": "shadow"}, False),
    ],
)
def test_by_default_all_goes_through_but_releases_and_shadow(
    decision_factory: Make, changes: dict[str, object], through: bool
) -> None:
    assert DecisionFilter().lets_through(decision_factory(**changes)) is through


def test_every_criterion_must_hold(decision_factory: Make) -> None:
    chosen = DecisionFilter(
        actions=frozenset({"release"}), modes=frozenset({"shadow"}), detectors=frozenset({"ping_pong"}), agents=frozenset({"a"})
    )
    right = {"action": "release", "mode": "shadow", "detector": "ping_pong", "agent_id": "a"}
    assert chosen.lets_through(decision_factory(**right))
    for wrong in (
        {"action": "block"},
        {"mode": "enforce"},
        {"detector": "generic_repeat"},
        {"agent_id": "b"},
        {"agent_id": None},
    ):
        assert not chosen.lets_through(decision_factory(**{**right, **wrong}))
