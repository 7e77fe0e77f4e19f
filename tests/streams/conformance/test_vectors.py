"""Every recorded vector on the engine alone, raw and hash-only."""

from pathlib import Path

import pytest

from streams.conformance.through_engine import play_on_engine
from streams.conformance.vectors import Vector, VectorError, read_vectors

VECTORS = Path(__file__).parents[2] / "vectors"
FILES = sorted(VECTORS.glob("*.jsonl"))


def changed_expectation(vector: Vector, position: int, **changes: object) -> Vector:
    """Copy a vector with other expectations at one step."""
    expect = [dict(step) for step in vector.expect]
    expect[position].update(changes)
    return Vector(vector.id, vector.policy, vector.agent_id, vector.steps, expect)


def vector_with(action: str) -> tuple[Vector, int]:
    """Find a vector that expects an action at some step, and the position of its first such step."""
    for path in FILES:
        for vector in read_vectors(path):
            for position, expected in enumerate(vector.expect):
                if expected["action"] == action:
                    return vector, position
    raise AssertionError(f"no vector expects {action}")


def test_the_vector_files_are_there() -> None:
    assert [path.stem for path in FILES] == ["fuzz", "handmade", "policy-change"]


@pytest.mark.parametrize("hashed", [False, True], ids=["raw", "hash-only"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_step_of_a_file_gets_its_recorded_verdict(path: Path, hashed: bool) -> None:
    vectors = list(read_vectors(path))
    assert vectors
    assert [str(difference) for vector in vectors for difference in play_on_engine(vector, hashed=hashed)] == []


@pytest.mark.parametrize("hashed", [False, True], ids=["raw", "hash-only"])
@pytest.mark.parametrize(
    ("action", "changes"),
    [
        ("block", {"action": "none"}),
        ("block", {"count": 4711}),
        ("block", {"detector": "another_detector"}),
        ("warn", {"action": "none"}),
        ("warn", {"level": "critical"}),
        ("none", {"action": "warn", "detector": "generic_repeat", "level": "warning", "count": 10}),
        ("abort", {"action": "recorded"}),
        ("abort", {"count": 4711}),
        ("recorded", {"action": "abort", "detector": "compaction_loop_persisted", "count": 3}),
    ],
)
def test_a_wrong_expectation_is_reported_at_its_step(action: str, changes: dict[str, object], hashed: bool) -> None:
    vector, position = vector_with(action)
    differences = play_on_engine(changed_expectation(vector, position, **changes), hashed=hashed)
    assert position + 1 in [difference.step for difference in differences]
    assert {difference.vector for difference in differences} == {vector.id}


def test_calls_that_should_be_one_class_but_are_not_are_reported() -> None:
    vector, position = next(
        (vector, position)
        for path in FILES
        for vector in read_vectors(path)
        for position, expected in enumerate(vector.expect)
        if position and expected.get("args_class") not in (None, vector.expect[0].get("args_class"))
        if vector.expect[0].get("args_class") is not None
    )
    tampered = changed_expectation(vector, position, args_class=vector.expect[0]["args_class"])
    assert any("args class" in difference.what for difference in play_on_engine(tampered, hashed=False))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a conformance vector"),
        ('{"id": "x", "steps": [], "expect": [{}]}', "0 steps, but 1 expectations"),
        ('{"id": "x", "steps": []}', "not a conformance vector"),
        ("[]", "not a conformance vector"),
    ],
)
def test_a_line_that_is_no_vector_is_named_by_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(VectorError, match=rf"broken\.jsonl:2: .*{reason}"):
        list(read_vectors(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"nowhere\.jsonl: cannot be read"):
        list(read_vectors(tmp_path / "nowhere.jsonl"))
