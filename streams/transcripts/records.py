"""Split a file into records: the lines of a JSON lines file, or the parts of a large JSON document."""

import io
from collections.abc import Callable, Iterator
from typing import IO, Any, Literal, NamedTuple

from schemas import json_text
from streams.transcripts.json_values import BrokenJsonError, JsonCursor

#: Read at once, to see what a file is and to copy it.
HEAD_BYTES = 1024 * 1024

#: A longer line is not read: it could only be held in memory as a whole.
MAX_LINE_BYTES = 256 * 1024 * 1024

#: Members with more than this are not part of an outline.
_MAX_OUTLINE_BYTES = 64 * 1024

#: Arrays whose elements become records of their own, so that a document of any size can be read.
_SPLIT: dict[str, Any] = {
    "messages": {},
    "traj": {},
    "history": {},
    "conversation": {},
    "trajectory": {},
    "loglines": {},
    "steps": {},
    "subagent_trajectories": {},
    "input": {},
    "output": {},
    "items": {},
    "data": {},
    "resourceSpans": {"scopeSpans": {"spans": {}}},
    "resource_spans": {"scope_spans": {"spans": {}}},
}

#: Members of objects that log a request and its response. Those are one record while they are small enough: what was answered
#: belongs behind what was asked, wherever it stands.
_EXCHANGE = frozenset({"choices", "request", "response"})
_MAX_WHOLE_BYTES = 64 * 1024 * 1024

#: Objects up to this size are taken from the file at once.
_SMALL_BYTES = 4 * 1024 * 1024

Shape = Literal["lines", "document"]
Meter = Callable[[int], None]


class Record(NamedTuple):
    """A value and where it stands.

    `document` is the line on which the value, or the document that it is a part of, begins: it tells documents of one file apart.
    A large document comes as an outline (its small members, its long arrays empty) and then one record for each element, which
    has the outline's members again and is not `first`. Anything else is `first`. `element` counts the elements of an array,
    which is then the document, from 1; 0 for what is no element.
    """

    value: Any
    line: int
    document: int
    first: bool = True
    element: int = 0


class BadRecord(NamedTuple):
    """A line, or the rest of a document, that is no JSON; the reason names no position, so that reasons can be counted."""

    line: int
    reason: str


def shape_of(head: bytes) -> Shape | None:
    """Tell from the first MB of a file, its first line in any case, how to split it; None when it is no JSON."""
    lines = [line for line in head.split(b"\n", 200)[:200] if line.strip()]
    if not lines:
        return None
    first = lines[0].strip()
    if _is_container(first):
        return "lines"
    if first[:1] in (b"{", b"["):
        broken_first_line = first not in (b"{", b"[") and len(lines) > 1 and _is_container(lines[1].strip())
        return "lines" if broken_first_line else "document"
    return "lines" if any(_is_container(line.strip()) for line in lines[1:]) else None


def _is_container(text: bytes) -> bool:
    try:
        return isinstance(json_text.loads(text), dict | list)
    except ValueError:
        return False


def records_of_lines(file: IO[bytes], *, meter: Meter) -> Iterator[Record | BadRecord]:
    """Yield the value of each line; an array on a line yields its elements. Blank lines are skipped."""
    number = 0
    unmetered = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        unmetered += len(line)
        if unmetered > HEAD_BYTES:
            meter(unmetered)
            unmetered = 0
        ended = line.endswith(b"\n")
        if not ended and len(line) == MAX_LINE_BYTES:
            while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                meter(len(rest))
            yield BadRecord(number, f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB")
            continue
        try:
            value = json_text.loads(line)
        except ValueError:
            if line.strip():
                yield BadRecord(number, "not JSON" if ended else "not JSON: the last line is cut off")
            continue
        if isinstance(value, list):
            for count, element in enumerate(value, start=1):
                yield Record(element, number, number, element=count)
        else:
            yield Record(value, number, number)
    meter(unmetered)


def records_of_document(file: IO[bytes], *, meter: Meter) -> Iterator[Record | BadRecord]:
    """Yield the parts of each document of a seekable file; a document that breaks off yields what is before the break."""
    cursor = JsonCursor(file)
    metered = file.tell()
    try:
        while first := cursor.peek():
            document = cursor.line
            listed = first == b"["
            parts = _elements(cursor) if listed else _members(cursor, file)
            for count, (value, line, is_first) in enumerate(parts, start=1):
                yield Record(value, line, document, is_first, count if listed else 0)
                if cursor.offset - metered > HEAD_BYTES:
                    meter(cursor.offset - metered)
                    metered = cursor.offset
    except BrokenJsonError as error:
        yield BadRecord(error.line, f"not JSON from here on: {error}")
    meter(cursor.offset - metered)


def _elements(cursor: JsonCursor) -> Iterator[tuple[Any, int, bool]]:
    for line in _each_element(cursor):
        yield cursor.value(), line, True


def _members(cursor: JsonCursor, file: IO[bytes]) -> Iterator[tuple[Any, int, bool]]:
    if cursor.peek() != b"{":
        line = cursor.line
        yield cursor.value(), line, True
        return
    line = cursor.line
    if (whole := cursor.small_value(_SMALL_BYTES)) is not None:  # looked over twice in memory, not in the file
        file = io.BytesIO(whole)
        cursor = JsonCursor(file, line=line)
    outline, keys, size = _outline(cursor, file)
    if (keys & _EXCHANGE or {"input", "output"} <= keys) and size <= _MAX_WHOLE_BYTES:
        yield cursor.value(), line, True
        return
    yield outline, line, True
    header = {key: value for key, value in outline.items() if key not in _SPLIT}
    yield from ((part, line, False) for part, line in _parts(cursor, _SPLIT, header))


def _outline(cursor: JsonCursor, file: IO[bytes]) -> tuple[dict[str, Any], set[str], int]:
    """Look ahead over an object: its small members, all its keys and its bytes; where it breaks off, those before the break."""
    position = file.tell()
    file.seek(cursor.offset)
    ahead = JsonCursor(file, line=cursor.line)
    outline: dict[str, Any] = {}
    keys: set[str] = set()
    try:
        for key in _each_key(ahead):
            keys.add(key)
            if key in _SPLIT and ahead.peek() == b"[":
                outline[key] = []
                ahead.skip_value()
                continue
            start = ahead.offset
            if ahead.skip_value() <= _MAX_OUTLINE_BYTES:
                end = file.tell()
                file.seek(start)
                outline[key] = JsonCursor(file).value()
                file.seek(end)
    except BrokenJsonError:
        pass  # met again, and told, when the parts are read
    file.seek(position)
    return outline, keys, ahead.offset - cursor.offset


def _parts(cursor: JsonCursor, split: dict[str, Any], header: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Take an object and yield, for each element of its long arrays, an object with that element alone and the header."""
    for key in _each_key(cursor):
        if key not in split or cursor.peek() != b"[":
            cursor.skip_value()
            continue
        for line in _each_element(cursor):
            if split[key] and cursor.peek() == b"{":
                yield from (({**header, key: [part]}, at) for part, at in _parts(cursor, split[key], {}))
            else:
                yield {**header, key: [cursor.value()]}, line


def _each_key(cursor: JsonCursor) -> Iterator[str]:
    cursor.expect(b"{")
    if cursor.take(b"}"):
        return
    while True:
        line = cursor.line
        key = cursor.value()
        if not isinstance(key, str):
            raise BrokenJsonError(line, "expected a key")
        cursor.expect(b":")
        yield key
        if cursor.take(b"}"):
            return
        cursor.expect(b",")


def _each_element(cursor: JsonCursor) -> Iterator[int]:
    """Yield the line of each element, which the caller takes before it goes on."""
    cursor.expect(b"[")
    if cursor.take(b"]"):
        return
    while True:
        cursor.peek()
        yield cursor.line
        if cursor.take(b"]"):
            return
        cursor.expect(b",")
