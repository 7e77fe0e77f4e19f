"""The payload of a decision as it is compared: all fields but the time it was decided at."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson
import xxhash

from schemas.decisions import Decision
from schemas.made_decisions import MadeDecision

#: The only field that differs between two computations of one decision.
_UNCOMPARED = "decided_at"


class FieldDifference(NamedTuple):
    """A field that is not what was recomputed; `path` like `evidence[2].call_id`, None where the field is missing."""

    path: str
    published: Any
    recomputed: Any


def payload_of(decision: MadeDecision | Decision) -> dict[str, Any]:
    """Return the payload that a worker would have published."""
    return comparable(decision.to_data())


def comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return published data without the time of the decision, and without nulls: a field that is not there says the same."""
    return {name: _without_nulls(value) for name, value in data.items() if value is not None and name != _UNCOMPARED}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list | tuple) else value


def digest_of(payload: Mapping[str, Any]) -> bytes:
    """Return 16 bytes that are equal for equal payloads."""
    return xxhash.xxh3_128_digest(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS))


def differences(published: Mapping[str, Any], recomputed: Mapping[str, Any]) -> tuple[FieldDifference, ...]:
    """Return the fields in which two payloads differ, in the order of their names."""
    ours, theirs = dict(_leaves("", recomputed)), dict(_leaves("", published))
    return tuple(
        FieldDifference(path, theirs.get(path), ours.get(path))
        for path in sorted({*ours, *theirs})
        if _as_json(ours.get(path)) != _as_json(theirs.get(path))
    )


def _as_json(value: Any) -> bytes:
    return orjson.dumps(value)  # for Python 1, 1.0 and true are equal


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}[{number}]", inner)
    else:
        yield path, value
