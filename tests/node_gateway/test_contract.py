"""What needs Node and no broker: the fingerprint vectors, the partitioner, and the AsyncAPI document in the official parser."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import schemas
from schemas.topics import Topics, partition_of

SCHEMAS = Path(schemas.__file__).parent


def test_the_gateway_computes_the_fingerprints_of_the_vectors(node: Callable[..., Any]) -> None:
    result = node("vectors.mjs", str(SCHEMAS / "fingerprint-vectors.json"))
    assert result.returncode == 0, result.stdout + result.stderr
    cases = json.loads((SCHEMAS / "fingerprint-vectors.json").read_text())
    compared = len(cases["tool_names"]) + 2 * len(cases["arguments"]) + len(cases["polls"]) + 4 * len(cases["outcomes"])
    assert result.stdout == f"{compared} comparisons, 0 differences\n"


def test_a_wrong_hash_would_be_found(node: Callable[..., Any], tmp_path: Path) -> None:
    cases = json.loads((SCHEMAS / "fingerprint-vectors.json").read_text())
    cases["arguments"][3]["args_hash"] = "0" * 32
    (tmp_path / "vectors.json").write_text(json.dumps(cases))
    result = node("vectors.mjs", str(tmp_path / "vectors.json"))
    assert result.returncode == 1
    assert f"arguments, {cases['arguments'][3]['title']}: expected" in result.stdout


def test_the_gateway_puts_runs_into_the_partitions_that_python_and_java_do(node: Callable[..., Any]) -> None:
    chance = random.Random(7)
    letters = "abcXYZ019-_:/ é√🦤"
    runs = ["", "run-7f3a", *("".join(chance.choices(letters, k=chance.randrange(40))) for _ in range(2000))]
    for partitions in (3, 12, 64):
        found = json.loads(node("partitions.mjs", str(partitions), input=json.dumps(runs)).stdout)
        assert found == [partition_of(run, partitions) for run in runs]


def test_the_official_parser_finds_nothing_to_say_about_the_asyncapi_document(node: Callable[..., Any]) -> None:
    result = node("asyncapi.mjs", str(SCHEMAS / "asyncapi.json"))
    assert result.returncode == 0, result.stdout + result.stderr
    (only,) = (json.loads(line) for line in result.stdout.splitlines())
    assert only["version"] == "3.1.0"
    assert sorted(only["channels"]) == sorted(spec.name for spec in Topics().specs(partitions=1, max_event_bytes=1))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("components", "schemas", "ToolCallBlocked", "type"), "mood", "type"),
        (("channels", "decisions", "bindings", "kafka", "partitions"), 0, "partitions"),
    ],
)
def test_the_official_parser_would_find_a_fault(
    node: Callable[..., Any], tmp_path: Path, path: tuple[str | int, ...], value: Any, said: str
) -> None:
    """In a schema or a binding. (Examples it does not look at in a document of version 3; `test_documents.py` does.)"""
    document = json.loads((SCHEMAS / "asyncapi.json").read_text())
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    (tmp_path / "asyncapi.json").write_text(json.dumps(document))
    found = [json.loads(line) for line in node("asyncapi.mjs", str(tmp_path / "asyncapi.json")).stdout.splitlines()]
    assert any(said in fault.get("path", "") and fault["severity"] == 0 for fault in found), found
