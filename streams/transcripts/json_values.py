"""Cut a stream of JSON text into values without holding more than one of them in memory.

A value's end is found with one regular expression that steps over whole strings, at some hundred MB/s; the value itself is read
by `schemas.json_text`. That also gives what incremental parsers do not: the line on which each value stands.
"""

import re
from typing import IO, Any, NoReturn

from schemas import json_text

_CHUNK = 1024 * 1024

#: A whole string, a bracket, or (last) a quote whose string does not end in what has been read so far.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|"', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
#: What ends a number or a word.
_AFTER_SCALAR = re.compile(rb"[ \t\r\n,\]}]")
_OPENING = b"{["
_QUOTE = ord('"')


class BrokenJsonError(ValueError):
    """The text is no JSON from here on; `line` is counted from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class JsonCursor:
    """A place in a binary file from which JSON values are taken one after the other.

    `line` is the line of the next byte that is no white space once `peek` was called; `offset` is its byte in the file.
    """

    def __init__(self, file: IO[bytes], *, line: int = 1) -> None:
        self._file = file
        self._buffer = bytearray()
        self._at = 0
        self._base = file.tell()
        self.line = line

    @property
    def offset(self) -> int:
        """Byte offset in the file of what comes next."""
        return self._base + self._at

    def peek(self) -> bytes:
        """Skip white space and return the next byte without taking it; empty at the end of the file."""
        while True:
            end = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]  # the pattern matches the empty text too
            self._advance(end)
            if end < len(self._buffer):
                return bytes(self._buffer[end : end + 1])
            if not self._refill():
                return b""

    def take(self, wanted: bytes) -> bool:
        """Take the next byte if it is the wanted one; white space before it is skipped."""
        if self.peek() != wanted:
            return False
        self._advance(self._at + 1)
        return True

    def expect(self, wanted: bytes) -> None:
        """Take the next byte; raises `BrokenJsonError` when it is another one."""
        if not self.take(wanted):
            self._fail(f"expected {wanted.decode()}")

    def value(self) -> Any:
        """Take and read the next value; raises `BrokenJsonError`."""
        self.peek()
        line = self.line
        raw = self._take_value()
        try:
            return json_text.loads(raw)
        except ValueError:
            raise BrokenJsonError(line, "a value that cannot be read") from None

    def skip_value(self) -> int:
        """Pass over the next value without reading it and return how many bytes it had."""
        self.peek()
        start = self.offset
        self._take_value(keep=False)
        return self.offset - start

    def small_value(self, limit: int) -> bytes | None:
        """Take the text of the next object or array; if it is broken, or much longer than `limit`, take nothing."""
        self.peek()
        try:
            end = self._end_of_nested(keep=True, limit=limit)
        except BrokenJsonError:
            return None
        return None if end is None else self._take_until(end)

    # -- the buffer ------------------------------------------------------------------------------------------------------------

    def _take_value(self, *, keep: bool = True) -> bytes:
        first = self.peek()
        if not first:
            self._fail("the text ends where a value should stand")
        if first in _OPENING or first == b'"':
            end_of_nested = self._end_of_nested(keep=keep)
            return self._take_until(end_of_nested if end_of_nested is not None else len(self._buffer))
        ahead = 0
        while (end := _AFTER_SCALAR.search(self._buffer, self._at + ahead)) is None:
            ahead = len(self._buffer) - self._at
            if not self._refill():
                return self._take_until(len(self._buffer))
        return self._take_until(end.start())

    def _end_of_nested(self, *, keep: bool, limit: int | None = None) -> int | None:
        """Find the quote or the bracket that closes a string, an object or an array; None when it is beyond the limit."""
        depth = 0
        ahead = 0  # bytes after `_at` that have been looked at
        while limit is None or ahead <= limit:
            position = len(self._buffer)
            for token in _TOKEN.finditer(self._buffer, self._at + ahead):
                start, end = token.span()
                byte = self._buffer[start]
                if byte == _QUOTE:
                    if end - start == 1:  # the string goes on in what has not been read yet
                        position = start
                        break
                    if depth:
                        continue
                    return end
                depth += 1 if byte in _OPENING else -1
                if depth == 0:
                    return end
            token = None  # type: ignore[assignment]  # it holds on to the buffer, which could not grow then
            if not keep:
                self._advance(position)
            ahead = position - self._at
            if not self._refill():
                self._fail("the text ends in the middle of a value")
        return None

    def _take_until(self, end: int) -> bytes:
        raw = bytes(self._buffer[self._at : end])
        self._advance(end)
        return raw

    def _advance(self, end: int) -> None:
        self.line += self._buffer.count(b"\n", self._at, end)
        self._at = end

    def _refill(self) -> bool:
        del self._buffer[: self._at]
        self._base += self._at
        self._at = 0
        more = self._file.read(max(_CHUNK, len(self._buffer)))  # doubling: a large value is looked at once, not once a chunk
        self._buffer += more
        return bool(more)

    def _fail(self, reason: str) -> NoReturn:
        raise BrokenJsonError(self.line, reason)
