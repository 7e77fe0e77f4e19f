import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.transcripts.sources import Source, SourceError, expand, opened


def names(*paths: str) -> list[str]:
    return [source.name if isinstance(source, Source) else f"error: {source}" for source in expand(paths)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("logs/b.jsonl", "logs/a.jsonl", "logs/deep/c.txt", "logs/.hidden", "logs/.git/x.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    return tmp_path


def test_folders_are_walked_in_order_without_hidden_entries(folder: Path) -> None:
    assert names("logs") == ["logs/a.jsonl", "logs/b.jsonl", "logs/deep/c.txt"]


def test_globs_are_expanded_and_each_file_comes_once(folder: Path) -> None:
    assert names("logs/**/*.jsonl", "logs/a.jsonl", "./logs/b.jsonl") == ["logs/a.jsonl", "logs/b.jsonl"]
    assert names("logs/*.nothing") == ["error: logs/*.nothing: no file matches"]


def test_a_name_with_glob_signs_that_exists_is_that_file(folder: Path) -> None:
    (folder / "run[1].jsonl").write_text("{}\n")
    assert names("run[1].jsonl") == ["run[1].jsonl"]


def test_a_file_that_was_named_must_be_a_log_and_one_of_a_folder_need_not(folder: Path) -> None:
    assert [source.named for source in expand(["logs/a.jsonl", "logs/deep"]) if isinstance(source, Source)] == [True, False]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_told(folder: Path) -> None:
    (folder / "logs/deep").chmod(0)
    assert "error: logs/deep: permission denied" in names("logs")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_what_is_read_is_unpacked_and_without_byte_order_mark(tmp_path: Path, packed: bool, mark: bytes) -> None:
    text = mark + b'{"a": 1}\n'
    file = tmp_path / "x"
    file.write_bytes(gzip.compress(text) if packed else text)
    with opened(Source("x", file, named=True)) as (lines, head):
        assert lines.read() == head == b'{"a": 1}\n'


def test_a_long_first_line_is_seen_whole(tmp_path: Path) -> None:
    file = tmp_path / "x"
    first = b'{"picture": "' + b"x" * 3_000_000 + b'"}\n'
    file.write_bytes(first + b"{}\n")
    with opened(Source("x", file, named=True)) as (_, head):
        assert head.startswith(first)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x28\xb5\x2f\xfd....", "packed with zstandard"),
        ("{}".encode("utf-16"), "UTF-16 text"),
        (gzip.compress(b"{}\n" * 10_000, mtime=0)[:-20], "broken gzip file"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_remedy(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=f"^x: {message}"), opened(Source("x", file, named=True)) as (lines, _):
        lines.read()


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": 2}\n', '[\n{"a": 1},\n{"a": 2}\n]\n'])
def test_a_pipe_is_read_whole_be_it_lines_or_a_document(text: str) -> None:
    program = (
        "from streams.transcripts.sources import *\n"
        "with opened(Source('stdin', None, named=True)) as (file, head): print(head.decode() == file.read().decode())"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("True", "")
