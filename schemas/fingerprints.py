r"""Fingerprints: the hashes by which two calls, or two outcomes, are the same.

A hash is XXH3-128 in lower-case hex over the canonical JSON (RFC 8785, see `canonical_json`) of one JSON value:

| hash | of | value |
|---|---|---|
| `args_hash` | the parameters of a call | the parameters as they are; a signature is the normalised tool name and this hash |
| `outcome_hash` | an error | `["error", text]`, text: a string as it is, else the canonical JSON; see below for thrown errors |
| | a result that is no object | `["value", result]` |
| | `exec`, `details.status` `running` | `["exec", status, tail]` |
| | `exec`, `completed` or `failed` | `["exec", status, numeric exitCode or null, timedOut is true, output]` |
| | `exec`, `approval-pending` or `approval-unavailable` | `["exec", status, reason, host, command, warningText]` |
| | `process` with action `poll` | `["poll", status, exitCode, exitSignal, aggregated, text]` |
| | `process` with action `log` | `["log", status, totalLines, totalChars, truncated, exitCode, exitSignal, text]` |
| | a send | `["send", details without volatile ids]` |
| | any other result | `["result", details, text]` |

A thrown error object is its message; where it has to be sent as a value it is written `{"$error": {"name", "message"}}`.
`tail`, `reason`, `host`, `command` and `warningText` are empty strings when they are no strings.
`details` is `result.details` when it is an object, else `{}`. A missing field is null, but a missing status is an empty array
(missing and null differ there). *Text* is the `text` of the entries of `result.content` with string `type` and `text`, joined by
`\n` and trimmed. Output is `details.aggregated` trimmed if it is a string and not empty then, else the text. An absent
result, and the refusal by the loop detection itself (`details.status` `blocked`, `details.deniedReason` `tool-loop`), have no
hash. White space is JavaScript's. Lower-casing of tool names is Unicode's, of missing tool names ASCII's.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal

import xxhash

from schemas.canonical_json import canonical_bytes


class _Missing(Enum):
    MISSING = "missing"


#: Stands for a result or an error that was not sent at all.
MISSING: Final = _Missing.MISSING

#: JavaScript's white space: what `trim` removes and `\s` matches there.
WHITE_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

_ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}
_MESSAGE_SENDS = frozenset(
    ("send", "broadcast", "reply", "thread-reply", "sendWithEffect", "sendAttachment", "upload-file", "sticker", "poll")
)
_VOLATILE = frozenset(
    (
        *("messageId", "message_id", "messageIds", "platformMessageId", "platformMessageIds"),
        *("fileId", "file_id", "fileKey", "pollId", "poll_id", "receipt", "runId", "idempotencyKey"),
        *("ts", "timestamp", "sentAt", "deliveredAt", "createdAt"),
    )
)
_NAME = r"[\"'`]?([A-Za-z0-9_.-]+)[\"'`]?"
_S = f"[{WHITE_SPACE}]"
_UNKNOWN = re.compile(rf"unknown tool(?::|{_S}){_S}*{_NAME}", re.ASCII | re.IGNORECASE)
_NOT_FOUND = re.compile(rf"tool{_S}+{_NAME}{_S}+(?:not{_S}+found|is{_S}+not{_S}+available)", re.ASCII | re.IGNORECASE)

#: Longest missing-tool name that is kept: texts of a megabyte are no names.
MAX_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFingerprint:
    """What an outcome means: its hash (None: no identity), the missing tool that its error names, and whether it is an error."""

    outcome_hash: str | None
    unknown_tool: str | None = None
    is_error: bool = False


@lru_cache(maxsize=4096)
def normalize_tool(name: str) -> str:
    """Return a tool name trimmed and lower-cased, with the two known aliases resolved."""
    tool = name.strip(WHITE_SPACE).lower()
    return _ALIASES.get(tool, tool)


def _hash(value: Any) -> str:
    return xxhash.xxh3_128_hexdigest(canonical_bytes(value))


def args_hash(params: Any) -> str:
    """Return the hash of a call's parameters."""
    return _hash(params)


def _action(params: Any) -> Any:
    return params.get("action") if isinstance(params, dict) else None


def is_poll(tool: str, params: Any) -> bool:
    """Whether a call asks for the state of something: `command_status`, or `process` with action `poll` or `log`."""
    tool = normalize_tool(tool)
    return tool == "command_status" or (tool == "process" and _action(params) in ("poll", "log"))


def outcome_fingerprint(
    tool: str, params: Any, *, result: Any | Literal[_Missing.MISSING] = MISSING, error: Any | Literal[_Missing.MISSING] = MISSING
) -> OutcomeFingerprint:
    """Return what an outcome means; an error wins over a result."""
    if error is not MISSING:
        text = _error_text(error)
        return OutcomeFingerprint(outcome_hash=_hash(["error", text]), unknown_tool=missing_tool(text), is_error=True)
    if result is MISSING:
        return OutcomeFingerprint(outcome_hash=None)
    if not isinstance(result, dict):
        return OutcomeFingerprint(outcome_hash=_hash(["value", result]))
    value = _identity(normalize_tool(tool), params, result)
    return OutcomeFingerprint(outcome_hash=None if value is None else _hash(value))


def _error_text(error: Any) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and error.keys() == {"$error"} and isinstance(error["$error"], dict):
        message = error["$error"].get("message")
        if isinstance(message, str):
            return message
    return canonical_bytes(error).decode()


def missing_tool(text: str) -> str | None:
    """Return the name of the tool that an error text says does not exist."""
    found = _UNKNOWN.search(text) or _NOT_FOUND.search(text)
    return found.group(1).lower()[:MAX_NAME] if found else None


def _text(result: dict[str, Any]) -> str:
    content = result.get("content")
    if not isinstance(content, list):
        return ""
    texts = [
        entry["text"]
        for entry in content
        if isinstance(entry, dict) and isinstance(entry.get("type"), str) and isinstance(entry.get("text"), str)
    ]
    return "\n".join(texts).strip(WHITE_SPACE)


def _identity(tool: str, params: Any, result: dict[str, Any]) -> list[Any] | None:
    details = result.get("details")
    if not isinstance(details, dict):
        details = {}
    status = details.get("status")
    if status == "blocked" and details.get("deniedReason") == "tool-loop":
        return None
    if tool == "exec" and isinstance(status, str):
        value = _exec_identity(status, details, result)
        if value is not None:
            return value
    action = _action(params)
    if tool == "process" and action in ("poll", "log"):
        fields = (
            ("exitCode", "exitSignal", "aggregated")
            if action == "poll"
            else ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")
        )
        return [action, details.get("status", []), *(details.get(field) for field in fields), _text(result)]
    if tool == "sessions_send" or (tool == "message" and isinstance(action, str) and action in _MESSAGE_SENDS):
        return ["send", _without_volatile(details)]
    return ["result", details, _text(result)]


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _exec_identity(status: str, details: dict[str, Any], result: dict[str, Any]) -> list[Any] | None:
    if status == "running":
        return ["exec", status, _string(details.get("tail"))]
    if status in ("completed", "failed"):
        code = details.get("exitCode")
        numeric = isinstance(code, int | float) and not isinstance(code, bool)
        aggregated = details.get("aggregated")
        output = aggregated.strip(WHITE_SPACE) if isinstance(aggregated, str) else ""
        return ["exec", status, code if numeric else None, details.get("timedOut") is True, output or _text(result)]
    if status in ("approval-pending", "approval-unavailable"):
        return ["exec", status, *(_string(details.get(field)) for field in ("reason", "host", "command", "warningText"))]
    return None


def _is_delivered_message(value: dict[str, Any]) -> bool:
    return (
        isinstance(value.get("id"), str)
        and isinstance(value.get("text"), str)
        and (
            any(isinstance(value.get(field), str) for field in ("direction", "senderId", "accountId"))
            or isinstance(value.get("conversation"), dict)
        )
    )


def _without_volatile(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_volatile(item) for item in value]
    if not isinstance(value, dict):
        return value
    hidden = _VOLATILE | {"id"} if _is_delivered_message(value) else _VOLATILE
    return {key: _without_volatile(item) for key, item in value.items() if key not in hidden}


def load_vectors() -> list[dict[str, Any]]:
    """Return the test vectors for other languages, `schemas/fingerprint-vectors.json`."""
    vectors: list[dict[str, Any]] = json.loads(resources.files("schemas").joinpath("fingerprint-vectors.json").read_text("utf-8"))
    return vectors
