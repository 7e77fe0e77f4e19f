import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.transcripts.items import CallStarted, Item, NotUnderstood
from streams.transcripts.reading import Readings
from streams.transcripts.registry import FORMATS, format_of

ReadPaths = Callable[..., tuple[list[Item], Readings]]
SAMPLES = Path(__file__).parent / "samples"

CODEX = {"timestamp": "2026-03-02T09:00:00Z", "type": "session_meta", "payload": {"id": "t"}}
CLAUDE = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "hi"}}
CALL = {"run": "r", "seq": 0, "tool": "ls", "args": {}, "result": "x"}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_a_name_a_title_and_a_documented_module(name: str) -> None:
    found = FORMATS[name]
    assert found.name == name
    assert found.title
    assert not any(found.recognises(value) for value in (None, 1, "x", [], {}, {"a": 1}, {"type": 7}))


def test_formats_are_found_by_content_under_any_name(tmp_path: Path, read: ReadPaths) -> None:
    for folder in SAMPLES.iterdir():
        for number, sample in enumerate(sorted(folder.glob("*.json*"))):
            if sample.name != "expected.json":
                (tmp_path / f"{folder.name}-{number}.dat").write_bytes(sample.read_bytes())
    _, readings = read(tmp_path)
    assert set(readings.files) == set(FORMATS)
    assert (readings.left_out, readings.problems) == (0, [])


def test_notes_before_the_first_message_do_not_hide_a_format(tmp_path: Path, read: ReadPaths) -> None:
    file = write(tmp_path / "x.jsonl", {"type": "last-prompt", "x": 1}, "", "torn {", CLAUDE)
    items, readings = read(file)
    assert dict(readings.files) == {"claude-code": 1}
    assert [item.place.line for item in items if isinstance(item, NotUnderstood)] == [3]


def test_mixed_formats_are_told_with_the_line_and_the_remedy(tmp_path: Path, read: ReadPaths) -> None:
    file = write(tmp_path / "x.jsonl", CODEX, CODEX, CALL)
    _, readings = read(file)
    (problem,) = readings.problems
    assert problem.startswith(f"{file}:3: this is of the format calls, but the file began as codex")
    assert "--format" in problem


def test_a_given_format_holds_whatever_the_lines_look_like(tmp_path: Path, read: ReadPaths) -> None:
    items, readings = read(write(tmp_path / "x.jsonl", CODEX, CALL), format_name="calls")
    assert readings.problems == []
    assert [type(item) for item in items][:2] == [NotUnderstood, CallStarted]


@pytest.mark.parametrize(
    ("content", "reason"), [("", "the file is empty"), ("hello\n", "no JSON is in it"), ('{"a": 1}\n', "its format is not known")]
)
def test_a_named_file_that_is_no_log_is_a_problem_and_one_of_a_folder_is_left_out(
    tmp_path: Path, read: ReadPaths, content: str, reason: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    assert [problem.split(";")[0] for problem in read(file)[1].problems] == [f"{file}: {reason}"]
    _, readings = read(tmp_path)
    assert (readings.problems, readings.left_out) == ([], 1)


def test_a_file_that_is_not_there_does_not_keep_others_from_being_read(tmp_path: Path, read: ReadPaths) -> None:
    items, readings = read(tmp_path / "missing.jsonl", write(tmp_path / "x.jsonl", CALL))
    assert readings.problems == [f"{tmp_path}/missing.jsonl: no such file or directory"]
    assert any(isinstance(item, CallStarted) for item in items)


def test_files_of_one_name_without_run_ids_are_different_runs(tmp_path: Path, read: ReadPaths) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "chat.jsonl", {"role": "user", "content": "hi"})
    items, _ = read(tmp_path)
    assert {item.run.run_id for item in items if not isinstance(item, NotUnderstood)} == {"chat", "chat@2"}  # type: ignore[union-attr]


def test_a_chat_message_among_items_is_not_passed_over_in_silence(tmp_path: Path, read: ReadPaths) -> None:
    typed = {"type": "message", "role": "user", "content": "hi"}
    called = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    _, readings = read(write(tmp_path / "x.jsonl", typed, called))
    assert "this is of the format openai-chat" in readings.problems[0]


def test_what_no_format_knows_is_known_by_none() -> None:
    assert format_of({"hello": "world"}) is None
