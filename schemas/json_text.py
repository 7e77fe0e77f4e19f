"""JSON text to values and back, strictly, and with everything that JSON text can say.

orjson does nearly all of it. What orjson refuses although it is JSON goes through the standard library: escapes of lone
surrogates (half characters, which JavaScript strings may hold) and numbers beyond the largest double.

Numbers count as IEEE doubles. An integer that fits into 64 bits (signed or unsigned) is read as an `int`, so that nothing is
lost before it is hashed or printed; any other number is read as a `float`, and one beyond the largest double as an infinity,
as `JSON.parse` reads it.
"""

import json
import math
from typing import Any, NoReturn

import orjson

#: Integers with more digits than this are beyond the largest double (1.8e308), so there is no need to convert them. The
#: conversion would take time that grows with the square of the length, and Python refuses it from 4300 digits on.
_LARGEST_DOUBLE_DIGITS = 309
_LARGEST_DOUBLE_BITS = 1024


def loads(data: bytes) -> Any:
    """Read one JSON text in UTF-8.

    Refused are a byte order mark, `NaN` and `Infinity`, bytes that are not UTF-8, text after the value and nesting too deep to
    read (1024 levels at most, a few less in a text that orjson refuses). Of equal keys in one object the last one counts.
    Raises `ValueError` with a reason that holds nothing of the text. The time is linear in the length.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    # Outside the except block: what orjson raised holds the text, and must not travel as the context of our own error.
    value, reason = _read_slowly(data)
    if reason:
        raise ValueError(reason)
    return value


def dumps(value: object) -> bytes:
    """Write a value as compact JSON in UTF-8; lone surrogates become escapes, infinities and NaN become `null`.

    Made for None, bool, int, float, str, list, tuple and dict with str keys; an integer beyond the largest double counts as an
    infinity. Raises `TypeError` for what has no JSON form, `ValueError` for nesting too deep to write.
    """
    try:
        return orjson.dumps(value, option=_STRICT)
    except orjson.JSONEncodeError:
        pass
    try:
        return json.dumps(_writable(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except RecursionError:
        raise ValueError("nested too deeply to be written as JSON") from None


_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _read_slowly(data: bytes) -> tuple[Any, str]:
    """Read with the standard library; returns the value and no reason, or no value and the reason why it is not JSON."""
    try:
        return json.loads(data.decode(), parse_int=_integer, parse_constant=_refuse_constant), ""
    except UnicodeDecodeError as error:
        return None, f"not JSON: invalid UTF-8 at byte {error.start}"
    except json.JSONDecodeError as error:
        return None, f"not JSON: {error.msg} at character {error.pos}"
    except RecursionError:
        return None, "not JSON that can be read: nested too deeply"
    except _ConstantError:
        return None, "not JSON: NaN and Infinity are no JSON numbers"


class _ConstantError(ValueError):
    """NaN, Infinity or -Infinity stands where a value should."""


def _refuse_constant(_name: str) -> NoReturn:
    raise _ConstantError


def _integer(digits: str) -> int | float:
    if len(digits.lstrip("-")) > _LARGEST_DOUBLE_DIGITS:
        return -math.inf if digits.startswith("-") else math.inf
    number = int(digits)
    # The same boundary as orjson's, so that a text means the same whichever of the two reads it.
    return number if -(2**63) <= number < 2**64 else float(digits)


def _writable(value: object) -> object:
    """Copy a value for json.dumps, which writes what is no JSON: infinities, and other keys than strings."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _LARGEST_DOUBLE_BITS else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key must be str, not {type(key).__name__}")
        return {key: _writable(item) for key, item in value.items()}
    raise TypeError(f"not a JSON value: {type(value).__name__}")
