from typing import Any

import pytest

from schemas.fingerprints import outcome_fingerprint
from streams.transcripts.codex_output import stable_result
from streams.transcripts.content import arguments, error_message, tool_result


def same(first: Any, second: Any) -> bool:
    hashes = {outcome_fingerprint("tool", None, result=result).outcome_hash for result in (first, second)}
    assert None not in hashes
    return len(hashes) == 1


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        (' {"a": 1}', {"a": 1}),
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ("ls -l", "ls -l"),
        ({"a": 1}, {"a": 1}),
        (None, None),
    ],
)
def test_arguments_that_are_the_text_of_an_object_are_read(given: Any, read: Any) -> None:
    assert arguments(given) == read


def picture(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"data": data}}


def test_outcomes_are_equal_exactly_when_what_was_answered_is() -> None:
    text = {"type": "text", "text": "done"}
    assert same(tool_result([text]), tool_result([text]))
    assert same(tool_result([text, picture("a")]), tool_result([text, picture("a")]))
    different = ["done", [text], [text, picture("a")], [text, picture("b")], {"a": 1}, {"a": 2}, [1], [2], 7, None, [], {}]
    results = [tool_result(answer) for answer in different]
    for index, first in enumerate(results):
        assert not any(same(first, second) for second in results[index + 1 :])


def test_errors_are_told_as_text() -> None:
    assert error_message("boom") == "boom"
    assert error_message([{"type": "text", "text": "a"}, picture("x"), {"type": "text", "text": "b"}]) == "a\nb"
    assert error_message({"code": 7}) == '{"code":7}'
    assert error_message(None) == "null"


def unified(text: str, chunk: str, wall: str, status: str = "Process exited with code 0") -> str:
    return f"Chunk ID: {chunk}\nWall time: {wall} seconds\n{status}\nOriginal token count: 12\nOutput:\n{text}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (unified("ok", "a1", "0.1"), unified("ok", "b2", "0.2")),
        (
            '{"output": "ok", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}',
            '{"output": "ok", "metadata": {"exit_code": 1, "duration_seconds": 9.9}}',
        ),
        ("Exit code: 1\nWall time: 2 seconds\nOutput:\nno", "Exit code: 1\nWall time: 3 seconds\nOutput:\nno"),
        (
            unified("", "a", "5.0", "Process running with session ID 3"),
            unified("", "b", "5.1", "Process running with session ID 4"),
        ),
        ({"content": "ok", "success": True}, {"content": "ok", "success": True}),
    ],
)
def test_outputs_of_codex_are_equal_whatever_they_took(first: Any, second: Any) -> None:
    assert same(stable_result(first)[0], stable_result(second)[0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (unified("ok", "a1", "0.1"), unified("no", "a1", "0.1")),
        (unified("ok", "a1", "0.1"), unified("ok", "a1", "0.1", "Process exited with code 1")),
        (unified("x", "a1", "0.1"), unified("x", "a1", "0.1", "Process running with session ID 3")),
        ("Wall time: 1\nsome text\nOutput:\nx", "Wall time: 2\nsome text\nOutput:\nx"),
        ('{"weather": "rain"}', '{"weather": "sun"}'),
        ("plain", "other"),
    ],
)
def test_outputs_of_codex_that_say_something_else_are_different(first: Any, second: Any) -> None:
    assert not same(stable_result(first)[0], stable_result(second)[0])


def test_codex_says_of_some_outputs_that_they_failed() -> None:
    assert stable_result({"content": "no", "success": False}) == ("no", True)
    assert stable_result({"body": [{"type": "input_text", "text": "x"}], "success": None})[1] is False
