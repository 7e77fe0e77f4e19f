"""The JSON form of Python values that tools take and give: what is fingerprinted, and sent when content is sent.

JSON values are used as they are. Values whose JSON form is plain are converted; all others have none: a guess (such as `repr`,
which cuts long arrays and tables short) could make two different calls look the same, and a healthy call would be refused.
"""

import base64
import dataclasses
import datetime
import decimal
import enum
import fractions
import uuid
from collections import deque
from collections.abc import Mapping, Set
from pathlib import PurePath
from typing import Any

from schemas.canonical_json import MAX_DEPTH, canonical_bytes

_AS_TEXT = (uuid.UUID, PurePath, decimal.Decimal, fractions.Fraction)
_DATES = (datetime.datetime, datetime.date, datetime.time)


class NoJsonFormError(ValueError):
    """A value has no JSON form; the message names the type, or says that it is nested too deeply."""


def json_form(value: Any) -> Any:
    """Return a value as None, bool, int, float, str, list and dict with str keys.

    Converted are mappings (keys as `json.dumps` writes them), sequences, sets (sorted), dataclasses, Pydantic models,
    enumerations, dates and times (ISO 8601; durations in seconds), UUIDs, paths, decimals and fractions (their text), bytes
    (Base64), exceptions (`{"$error": {"name", "message"}}`), and numbers and arrays of NumPy. Raises `NoJsonFormError` for
    others, for more than `MAX_DEPTH` levels and for values that contain themselves.
    """
    return _form(value, MAX_DEPTH)


def error_form(error: BaseException) -> dict[str, Any]:
    """Return how a thrown error is reported: its message counts, or its class when it has none."""
    name = type(error).__name__
    return {"$error": {"name": name, "message": str(error) or name}}


def _form(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _form(value.value, levels - 1)
    if isinstance(value, str | int | float):
        return value
    if levels <= 0:
        raise NoJsonFormError(f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {_key(key): _form(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_form(item, levels - 1) for item in value]
    if isinstance(value, Set):
        return sorted((_form(item, levels - 1) for item in value), key=canonical_bytes)
    return _object_form(value, levels)


def _object_form(value: Any, levels: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, _DATES):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, BaseException):
        return error_form(value)
    if isinstance(value, type):
        raise NoJsonFormError("a class has no JSON form")
    if dataclasses.is_dataclass(value):
        return {field.name: _form(getattr(value, field.name), levels - 1) for field in dataclasses.fields(value)}
    for method in ("model_dump", "tolist"):  # Pydantic models; numbers and arrays of NumPy
        convert = getattr(value, method, None)
        if callable(convert):
            return _form(convert(), levels - 1)
    raise NoJsonFormError(f"a {type(value).__qualname__} has no JSON form")


def _key(key: object) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int | float):
        return canonical_bytes(key).decode()
    if isinstance(key, _AS_TEXT):
        return str(key)
    raise NoJsonFormError(f"a key of type {type(key).__qualname__} has no JSON form")
