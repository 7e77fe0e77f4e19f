"""The files that a person means: names, folders, globs and standard input, opened whatever they are packed in."""

import contextlib
import glob
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from streams.transcripts.records import HEAD_BYTES, shape_of

#: The name of standard input in places.
STDIN = "stdin"

#: How far the end of a long first line is looked for: pictures pasted into a prompt take some MB.
_MAX_HEAD_BYTES = 64 * HEAD_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class SourceError(ValueError):
    """A path that cannot be read as a log; the text is one line that names it and says what to do."""


class Source(NamedTuple):
    """A file to read. `named`: the user gave its name, so it must be a log; else it was met in a folder and may be anything."""

    name: str
    path: Path | None
    named: bool

    @property
    def size(self) -> int:
        """Bytes on disk; 0 when not known."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_size if self.path is not None else 0
        return 0


def expand(paths: Iterable[str]) -> Iterator[Source | SourceError]:
    """Yield the files that the paths mean, each once: sorted in a folder or a glob, without the hidden entries of folders."""
    seen: set[str] = set()
    for path in paths:
        for source in _expanded(path):
            if isinstance(source, Source) and source.path is not None:
                real = os.path.realpath(source.path)
                if real in seen:
                    continue
                seen.add(real)
            yield source


def _expanded(path: str) -> Iterator[Source | SourceError]:
    if path == "-":
        yield Source(STDIN, None, named=True)
    elif Path(path).is_dir():
        yield from _walk(path)
    elif not Path(path).exists() and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            yield SourceError(f"{path}: no file matches")
        for match in found:
            if not Path(match).is_dir():
                yield Source(match, Path(match), named=True)
    else:
        yield Source(path, Path(path), named=True)


def _walk(root: str) -> Iterator[Source | SourceError]:
    errors: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=errors.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield Source(str(path), path, named=False)
    for error in errors:
        yield SourceError(f"{error.filename}: {(error.strerror or 'cannot be read').lower()}")


@contextlib.contextmanager
def opened(source: Source) -> Iterator[tuple[IO[bytes], bytes]]:
    """Open a source, unpacked and without byte order mark; gives the file at its start, and its head.

    Files can be sought, standard input too: what is no JSON lines is copied to a temporary file first. Raises `OSError`, and
    `SourceError` for what is packed or written in a way that is not read.
    """
    with contextlib.ExitStack() as stack:
        if source.path is None:
            # Not sys.stdin's own buffer: Python could not shut down while a thread waits in it.
            raw: IO[bytes] = stack.enter_context(open(sys.stdin.fileno(), "rb", closefd=False))
        else:
            raw = stack.enter_context(source.path.open("rb"))
        start = raw.read(4)
        file: IO[bytes] = raw
        if seekable := raw.seekable():
            raw.seek(0)
        else:  # a pipe, also under a name: <(zcat log.gz)
            file = stack.enter_context(io.BufferedReader(_Joined(start, raw)))
        if start.startswith(_GZIP):
            seekable = False  # it could be, but each step back would unpack it from its beginning
            unpacked = stack.enter_context(gzip.open(file, "rb"))
            file = cast("IO[bytes]", unpacked)
        elif start.startswith(_ZSTANDARD):
            raise SourceError(f"{source.name}: packed with zstandard; unpack it first: zstd -dc FILE | loopwarden scan -")
        elif start.startswith(_UTF_16):
            raise SourceError(f"{source.name}: UTF-16 text; logs are read as UTF-8: iconv -f UTF-16 -t UTF-8 FILE")
        try:
            yield from _positioned(file, seekable=seekable, stack=stack)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise SourceError(f"{source.name}: broken gzip file ({error})") from None


def _positioned(file: IO[bytes], *, seekable: bool, stack: contextlib.ExitStack) -> Iterator[tuple[IO[bytes], bytes]]:
    head = _read_fully(file, HEAD_BYTES)
    while b"\n" not in head.strip() and len(head) < _MAX_HEAD_BYTES and (more := file.read(HEAD_BYTES)):
        head += more
    mark = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
    if seekable:
        file.seek(mark)
        yield file, head[mark:]
        return
    if shape_of(head[mark:]) != "document":
        yield stack.enter_context(io.BufferedReader(_Joined(head[mark:], file))), head[mark:]
        return
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  (the stack closes it)
    copy.write(head[mark:])
    while chunk := file.read(HEAD_BYTES):
        copy.write(chunk)
    copy.seek(0)
    yield copy, head[mark:]


def _read_fully(file: IO[bytes], size: int) -> bytes:
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Joined(io.RawIOBase):
    """Bytes that were read already, and then the rest of the file that they came from."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first = memoryview(first)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # RawIOBase names it Buffer
        if not self._first:
            data = memoryview(self._rest.read(len(buffer)))
        else:
            data = self._first[: len(buffer)]
            self._first = self._first[len(data) :]
        buffer[: len(data)] = data
        return len(data)
