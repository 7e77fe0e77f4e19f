"""Recorded vectors through publisher, broker, worker and gate.

All that ship take some minutes, most of them for one scenario of 2,859 calls: `loopwarden conformance --through gate
tests/vectors/*.jsonl`. Here are all changes of policy, and every eighth of the others.
"""

from pathlib import Path

import pytest

from schemas.settings import Settings
from streams.conformance.through_gate import play_through_gate
from streams.conformance.vectors import Vector, read_vectors

pytestmark = pytest.mark.broker

VECTORS = Path(__file__).parents[2] / "vectors"

#: Longer scenarios are left to the command.
MAX_STEPS = 120


def chosen() -> list[Vector]:
    found = list(read_vectors(VECTORS / "policy-change.jsonl"))
    for name in ("handmade", "fuzz"):
        vectors = [vector for vector in read_vectors(VECTORS / f"{name}.jsonl") if len(vector.steps) <= MAX_STEPS]
        found += [vector for number, vector in enumerate(vectors) if number % 8 == 0 or vector.steps[0]["kind"] != "call"]
    return found


def tampered(vector: Vector, action: str, **changes: object) -> Vector:
    """Expect something else wherever a step has an action; the events that are played stay the same."""
    expect = [{**step, **changes} if step["action"] == action else step for step in vector.expect]
    assert expect != vector.expect
    return Vector(f"{vector.id}-tampered-{action}", vector.policy, vector.agent_id, vector.steps, expect)


async def test_the_gates_answers_are_the_recorded_ones_and_wrong_ones_are_found(broker_traits: object, tmp_path: Path) -> None:
    names = ("bootstrap_servers", "session_timeout", "heartbeat_interval", "idempotent_producer")
    settings = Settings(data_dir=tmp_path, **{name: getattr(broker_traits, name) for name in names})
    vectors = chosen()
    wrong = [
        tampered(next(v for v in vectors if any(step["action"] == action for step in v.expect)), action, count=4711)
        for action in ("block", "warn", "abort")
    ]
    found = await play_through_gate([*vectors, *wrong], bootstrap_servers=settings.bootstrap_servers, settings=settings)
    tampered_names = {f"{vector.id} ({form})" for vector in wrong for form in ("raw", "hash-only")}
    assert [str(difference) for difference in found if difference.vector not in tampered_names] == []
    assert {difference.vector for difference in found} == tampered_names
