"""Canonical JSON (RFC 8785): the same bytes for the same value in any language."""

import math
import re
from typing import Any

import orjson
import rfc8785

#: Nesting beyond which a value is refused, on both paths alike.
MAX_DEPTH = 250

# In orjson's compact output a number follows the start, a colon, a comma or a bracket. A fraction, an exponent or 16 digits may
# be printed differently by JavaScript, and keys with 4-byte characters sort differently by UTF-16. A match inside a string, or a
# deep nesting that the second expression suspects, only costs time.
_NEEDS_SLOW_PATH = re.compile(rb"(?:\A|[:,\[])-?\d+(?:[.eE]|(?<=\d{16}))|[\xf0-\xf4]|(?:[\[{][^\[{]*){200}")
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_MAX_EXACT = 2**53 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical_bytes(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value whose numbers are taken as IEEE doubles.

    Two things that RFC 8785 refuses are written as JavaScript's `JSON.stringify` writes them: lone surrogates as lower-case
    escapes, and numbers beyond the doubles as null. Raises `TypeError` for what is no JSON and `ValueError` for deep nesting.
    """
    if isinstance(value, float):
        return _slow(value)
    try:
        fast = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, orjson.JSONEncodeError):
        return _slow(value)
    # orjson prints a float that is not finite as null, as the slow path does.
    return _slow(value) if _NEEDS_SLOW_PATH.search(fast) else fast


def _slow(value: Any) -> bytes:
    escapes: dict[bytes, bytes] = {}
    try:
        plain = _prepared(value, 0, escapes)
        written: bytes = rfc8785.dumps(plain)
    except rfc8785.CanonicalizationError as error:
        raise TypeError(f"no JSON value: {error}") from None
    for stand_in, escape in escapes.items():
        written = written.replace(stand_in, escape)
    return written


def _prepared(value: Any, depth: int, escapes: dict[bytes, bytes]) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, escapes)
    if isinstance(value, int):
        if -_MAX_EXACT <= value <= _MAX_EXACT:
            return int(value)
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_prepared(item, depth + 1, escapes) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("no JSON value: object keys must be strings")
        return {_text(key, escapes): _prepared(item, depth + 1, escapes) for key, item in value.items()}
    raise TypeError(f"no JSON value: {type(value).__name__}")


def _text(text: str, escapes: dict[bytes, bytes]) -> str:
    if text.isascii() or not _SURROGATE.search(text):
        return text

    # A stand-in survives the encoding and is replaced afterwards. It is a private-use character pair that no text has reason to
    # contain; a lone surrogate in a key sorts as its stand-in.
    def stand_in(match: re.Match[str]) -> str:
        code = ord(match.group())
        stand = f"\U0010fffd{chr(0xE000 + code - 0xD800)}"
        escapes[stand.encode()] = f"\\u{code:04x}".encode()
        return stand

    return _SURROGATE.sub(stand_in, text)
