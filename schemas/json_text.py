"""JSON text to values and back, strictly, with what a fast parser refuses but JSON allows."""

import json
import math
import re
from typing import Any, NoReturn

import orjson

#: Nesting that the slow parser takes; orjson's own limit is 1024.
MAX_DEPTH = 512

_MANY_DIGITS = re.compile(r"\d{400}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int | float:
    # Numbers count as doubles, and a double ends at 309 digits; Python would spend quadratic time on more of them.
    return math.copysign(math.inf, -1 if text.startswith("-") else 1) if _MANY_DIGITS.search(text) else int(text)


def loads(data: bytes) -> Any:
    """Parse JSON text in UTF-8.

    Lone surrogates in escapes are kept. Integers beyond 64 bits become doubles or big integers and numbers beyond the doubles
    become infinite: for fingerprints all numbers are doubles. Raises `ValueError` with a reason that quotes nothing of the text.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start})") from None
    if text.startswith("\ufeff"):
        raise ValueError("starts with a byte order mark, which JSON does not allow")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    if _deeper_than(value, MAX_DEPTH):
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return value


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return True


def dumps(value: Any) -> bytes:
    """Write a value as compact JSON; lone surrogates and integers beyond 64 bits take a slower path."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
