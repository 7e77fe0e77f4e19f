import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from schemas.fingerprints import (
    MISSING,
    OutcomeFingerprint,
    args_hash,
    normalize_tool,
    outcome_fingerprint,
    outcome_value,
)

VECTORS = Path(__file__).parents[1] / "vectors"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "details", "status", "type", "text", "id", "$error"]), inner, max_size=4)
    ),
    max_leaves=10,
)


def vectors() -> Iterator[Any]:
    for name, count in (("handmade", 259), ("policy-change", 6), ("fuzz", 400)):
        lines = (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines()
        assert len(lines) == count
        for line in lines:
            vector = json.loads(line)
            yield pytest.param(vector, id=vector["id"])


def assert_same_partition(pairs: list[tuple[Any, Any]]) -> None:
    """Every hash has one class and every class has one hash."""
    classes: dict[Any, Any] = {}
    hashes: dict[Any, Any] = {}
    for step, (found, expected) in enumerate(pairs, 1):
        assert classes.setdefault(found, expected) == expected, f"number {step}: equal to one of class {classes[found]}"
        assert hashes.setdefault(expected, found) == found, f"number {step}: differs from an earlier one of class {expected}"


@pytest.mark.parametrize("vector", list(vectors()))
def test_hashes_are_equal_exactly_when_the_recorded_classes_are(vector: dict[str, Any]) -> None:
    calls, outcomes = [], []
    for step, expected in zip(vector["steps"], vector["expect"], strict=True):
        if "args_class" in expected:
            calls.append(((normalize_tool(step["tool"]), args_hash(step["params"])), expected["args_class"]))
        if "result_class" in expected:
            reported = {name: step[name] for name in ("result", "error") if name in step}
            outcome_hash = outcome_fingerprint(step["tool"], step["params"], **reported).outcome_hash
            assert (outcome_hash is None) == (expected["result_class"] is None)
            outcomes.append((outcome_hash, expected["result_class"]))
    assert calls or outcomes
    assert_same_partition(calls)
    assert_same_partition(outcomes)


def test_a_hash_is_xxh3_128_of_the_canonical_bytes_in_lower_case_hex() -> None:
    assert args_hash({"b": 1.0, "a": "\u00e9"}) == xxhash.xxh3_128('{"a":"\u00e9","b":1}'.encode()).hexdigest()
    # The digest of no bytes is a constant of XXH3 itself, so this pins algorithm, seed and byte order.
    assert xxhash.xxh3_128_hexdigest(b"") == "99aa06d3014798d86001c324468d497f"


def test_missing_null_and_empty_parameters_differ_from_each_other() -> None:
    assert len({args_hash(None), args_hash({}), args_hash([]), args_hash("")}) == 4


def test_an_outcome_without_error_or_result_has_no_hash() -> None:
    nothing = OutcomeFingerprint(outcome_hash=None, unknown_tool=None, is_error=False)
    assert outcome_fingerprint("read", {}) == nothing
    assert outcome_fingerprint("read", {}, result=MISSING, error=None) == nothing
    assert outcome_value("read", {}) is None


def test_an_error_wins_over_a_result_and_null_is_no_error() -> None:
    failed = outcome_fingerprint("read", {}, result="up", error="down")
    assert failed == outcome_fingerprint("read", {}, error="down")
    assert failed.is_error
    assert outcome_fingerprint("read", {}, result="up", error=None) == outcome_fingerprint("read", {}, result="up")


def test_errors_have_a_name_space_of_their_own() -> None:
    outcomes: list[dict[str, Any]] = [
        {"error": "x"},
        {"result": "x"},
        {"result": ["error", "x"]},
        {"result": {"content": [{"type": "text", "text": "x"}]}},
    ]
    assert len({outcome_fingerprint("read", {}, **outcome).outcome_hash for outcome in outcomes}) == len(outcomes)


def test_the_missing_tool_is_found_in_errors_and_only_there() -> None:
    assert outcome_fingerprint("x", {}, error="Unknown tool: Winch").unknown_tool == "winch"
    assert outcome_fingerprint("x", {}, error={"code": 404, "message": "Tool Winch not found"}).unknown_tool == "winch"
    assert outcome_fingerprint("x", {}, error={"$error": {"message": "Tool Winch not found"}}).unknown_tool == "winch"
    assert outcome_fingerprint("x", {}, result="Unknown tool: Winch").unknown_tool is None


def test_a_result_can_say_that_it_is_an_error_without_changing_its_hash() -> None:
    told = outcome_fingerprint("x", {}, result={"isError": True})
    assert told.is_error
    assert told.outcome_hash == outcome_fingerprint("x", {}, result={}).outcome_hash
    assert not outcome_fingerprint("x", {}, result={"isError": 1}).is_error


def test_any_spelling_of_a_tool_gets_its_treatment() -> None:
    first = {"details": {"status": "completed", "durationMs": 1}}
    second = {"details": {"status": "completed", "durationMs": 2}}
    assert outcome_fingerprint(" Bash", {}, result=first) == outcome_fingerprint("exec", {}, result=second)
    assert outcome_fingerprint("shell", {}, result=first) != outcome_fingerprint("shell", {}, result=second)


@given(st.sampled_from(["exec", "process", "message", "sessions_send", "read"]), VALUES, VALUES, st.booleans())
def test_every_json_value_has_a_fingerprint(tool: str, params: Any, outcome: Any, failed: bool) -> None:
    reported = {"error" if failed else "result": outcome}
    fingerprint = outcome_fingerprint(tool, params, **reported)
    value = outcome_value(tool, params, **reported)
    assert fingerprint.outcome_hash == (None if value is None else args_hash(value))
    assert len(args_hash(params)) == 32


@pytest.mark.parametrize("tool", ["read", "message"])
@pytest.mark.parametrize("place", ["result", "error", "details"])
def test_bottomless_values_are_refused(tool: str, place: str) -> None:
    value: Any = []
    for _ in range(900):
        value = [value]
    reported = {"result": {"details": {"a": value}}} if place == "details" else {place: value}
    with pytest.raises(ValueError, match="nested more than"):
        outcome_fingerprint(tool, {"action": "send"}, **reported)
    with pytest.raises(ValueError, match="nested more than"):
        args_hash(value)
