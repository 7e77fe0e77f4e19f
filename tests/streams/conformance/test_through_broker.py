"""Every recorded vector through a broker and real workers."""

from itertools import islice
from pathlib import Path

import pytest

from schemas.settings import Settings
from streams.conformance.through_broker import play_through_broker
from streams.conformance.vectors import Vector, read_vectors

pytestmark = pytest.mark.broker

VECTORS = Path(__file__).parents[2] / "vectors"


def tampered(vector: Vector) -> Vector:
    """Expect another count wherever a call is blocked; the events that are played stay the same."""
    expect = [{**step, "count": 4711} if step["action"] == "block" else step for step in vector.expect]
    return Vector(f"{vector.id}-tampered", vector.policy, vector.agent_id, vector.steps, expect)


async def test_all_vectors_have_their_recorded_verdicts_and_tampered_ones_are_found(
    broker: str, broker_traits: object, tmp_path: Path
) -> None:
    traits = {name: getattr(broker_traits, name) for name in ("session_timeout", "heartbeat_interval", "idempotent_producer")}
    vectors = [vector for path in sorted(VECTORS.glob("*.jsonl")) for vector in read_vectors(path)]
    blocked = (vector for vector in vectors if any(step["action"] == "block" for step in vector.expect))
    wrong = [tampered(vector) for vector in islice(blocked, 2)]
    differences = await play_through_broker(
        [*vectors, *wrong], bootstrap_servers=broker, settings=Settings(data_dir=tmp_path, **traits)
    )
    names = {f"{vector.id} ({form})" for vector in wrong for form in ("raw", "hash-only")}
    assert [str(difference) for difference in differences if difference.vector not in names] == []
    assert {difference.vector for difference in differences} == names
