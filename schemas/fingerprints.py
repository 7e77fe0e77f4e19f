"""Fingerprints: two calls, or two outcomes, are the same exactly when their hashes are equal.

A hash is XXH3-128 with seed 0 over the canonical bytes of a JSON value (`schemas.canonical_json`), written as 32 lower-case
hexadecimal digits, most significant first. Which value it is:

* arguments: `params` itself. The tool is not in the hash: the signature of a call is the pair of the normalized tool name
  (`schemas.tool_names`) and this hash. A call without parameters is sent with `params` null; null, `{}` and `[]` differ.
* outcomes: the table in `schemas.outcome_identity`.

The hashes tell equal from different. They are no protection: whoever can guess a short content can check the guess.
`fingerprint-vectors.json` in this package has examples of every rule for other languages; `schemas.fingerprint_vectors` says what
is in it.
"""

from dataclasses import dataclass
from enum import Enum
from importlib import resources
from typing import Any, Final, Literal

from xxhash import xxh3_128_hexdigest

from schemas import json_text
from schemas.canonical_json import canonical_bytes
from schemas.outcome_identity import error_identity, error_text, result_identity
from schemas.tool_names import is_poll, normalize_tool
from schemas.unknown_tool import missing_tool

__all__ = [
    "MISSING",
    "OutcomeFingerprint",
    "args_hash",
    "hash_value",
    "is_poll",
    "load_vectors",
    "normalize_tool",
    "outcome_fingerprint",
    "outcome_value",
]


class _Missing(Enum):
    MISSING = "missing"


#: Not given at all; null is a value.
MISSING: Final = _Missing.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFingerprint:
    """What detection needs to know of an outcome.

    `outcome_hash` is None when the outcome has no identity: it is then not recorded. `unknown_tool` is the missing tool that the
    error text names. `is_error`: an error was reported, or `result.isError` is true.
    """

    outcome_hash: str | None
    unknown_tool: str | None = None
    is_error: bool = False


def hash_value(value: Any) -> str:
    """Hash a JSON value; raises `TypeError` and `ValueError` as `canonical_bytes` does."""
    return xxh3_128_hexdigest(canonical_bytes(value))


def args_hash(params: Any) -> str:
    """Hash the parameters of a call, any JSON value; raises as `hash_value` does."""
    return xxh3_128_hexdigest(canonical_bytes(params))


def outcome_fingerprint(
    tool: str,
    params: Any,
    *,
    result: Any | Literal[_Missing.MISSING] = MISSING,
    error: Any | Literal[_Missing.MISSING] = MISSING,
) -> OutcomeFingerprint:
    """Hash the outcome of a call and find the facts that a hash hides.

    `tool` need not be normalized; `params` are those reported with the outcome. An `error` of None is none. An error wins over
    a result. Raises `TypeError` for values that are no JSON, `ValueError` for values nested too deeply.
    """
    if error is not MISSING and error is not None:
        text = error_text(error)
        return OutcomeFingerprint(outcome_hash=hash_value(error_identity(text)), unknown_tool=missing_tool(text), is_error=True)
    if result is MISSING:
        return _NOTHING_KNOWN
    value = result_identity(normalize_tool(tool), params, result)
    return OutcomeFingerprint(
        outcome_hash=None if value is None else hash_value(value),
        is_error=isinstance(result, dict) and result.get("isError") is True,
    )


def outcome_value(
    tool: str,
    params: Any,
    *,
    result: Any | Literal[_Missing.MISSING] = MISSING,
    error: Any | Literal[_Missing.MISSING] = MISSING,
) -> list[Any] | None:
    """Return the JSON value that `outcome_fingerprint` hashes, or None, for those who want to see why two outcomes differ."""
    if error is not MISSING and error is not None:
        return error_identity(error_text(error))
    return None if result is MISSING else result_identity(normalize_tool(tool), params, result)


def load_vectors() -> dict[str, Any]:
    """Read the test vectors for other languages that this package ships."""
    vectors: dict[str, Any] = json_text.loads(resources.files("schemas").joinpath("fingerprint-vectors.json").read_bytes())
    return vectors


_NOTHING_KNOWN = OutcomeFingerprint(outcome_hash=None)
