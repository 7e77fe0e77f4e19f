"""What an outcome means: the JSON value whose hash says whether two outcomes are the same.

Ids, durations and process ids that differ each time are left out. The value is an array of a tag and a content. The tag keeps
the rules apart, so an error never equals a result with the same words. The tool enters only through the choice of the rule:
ordinary outcomes of two tools compare equal.

An outcome is reported with the tool (its name normalized as `schemas.tool_names` says), the parameters of the call, and
`error` or `result` or neither. `details` is `result.details` when that is an object, else `{}`; `action` is `params.action`
when `params` is an object. The first rule that fits applies:

| when | value |
|---|---|
| `error` is there and not null | `["error", error text]` |
| `result` is not there | none: the outcome has no hash |
| `result` is no object (null and arrays are none) | `["value", result]` |
| `details.status` is `"blocked"` and `details.deniedReason` is `"tool-loop"` | none |
| tool `exec`, `details.status` `"running"` | `["exec", {"status", "tail": string tail}]` |
| tool `exec`, `details.status` `"completed"` or `"failed"` | `["exec", {"status", "exitCode", "timedOut", "output"}]` |
| tool `exec`, `details.status` `"approval-pending"` or `"approval-unavailable"` |
  `["exec", {"status", "reason": or null, "host": or null, "command": string command, "warningText": string warningText}]` |
| tool `process`, action `"poll"` | `["poll", {"status"?, "exitCode", "exitSignal", "aggregated", "text"}]` |
| tool `process`, action `"log"` |
  `["log", {"status"?, "totalLines", "totalChars", "truncated", "exitCode", "exitSignal", "text"}]` |
| tool `sessions_send`; or tool `message` with one of `SEND_ACTIONS` |
  `["send", details without volatile members]` (`schemas.delivery_details`) |
| otherwise | `["result", {"details", "text"}]` |

Members are those of `details` by the same name, with these exceptions.

* `text`: the `text` of the entries of the array `result.content` that are objects with string `type` and string `text`, joined
  by U+000A, white space at both ends removed (`schemas.javascript_whitespace`); `""` when there are none.
* "string x": x when it is a string (as it is, not trimmed), else `""`. "or null": null when it is missing.
* `exec`: `exitCode` is null unless a number (true and false are none); `timedOut` is true only for true, else false; `output` is
  `details.aggregated` trimmed when that is a string and not empty then, else `text`.
* `poll`, `log`: `status` is missing when `details.status` is missing (null is kept); the others are null when missing.

*Error text*: a string as it is. A thrown error object is its message, whatever its name; where it has to be sent as a value it is
written `{"$error": {"name": ..., "message": ...}}`, an object whose only member is an object with a string `message`. Any other
value is its canonical JSON text, `{"message": ...}` too: a plain object with a message differs from the bare message.
"""

from collections.abc import Mapping
from typing import Any, Final

from schemas.canonical_json import canonical_bytes
from schemas.delivery_details import without_volatile
from schemas.javascript_whitespace import trim

#: Actions of the tool `message` that deliver something, spelled exactly like this.
SEND_ACTIONS: Final = frozenset(
    (
        "send",
        "broadcast",
        "reply",
        "thread-reply",
        "sendWithEffect",
        "sendAttachment",
        "upload-file",
        "sticker",
        "poll",
    )
)

_POLL_MEMBERS = ("exitCode", "exitSignal", "aggregated")
_LOG_MEMBERS = ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")
_NO_DETAILS: Mapping[str, Any] = {}


def error_identity(text: str) -> list[Any]:
    """Return the value to hash for an error with this text."""
    return ["error", text]


def error_text(error: Any) -> str:
    """Return the text of an error, any JSON value; raises `TypeError` and `ValueError` as `canonical_bytes` does."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and len(error) == 1:
        thrown = error.get("$error")
        if isinstance(thrown, dict) and isinstance(thrown.get("message"), str):
            message: str = thrown["message"]
            return message
    return canonical_bytes(error).decode()


def result_identity(tool: str, params: Any, result: Any) -> list[Any] | None:
    """Return the value to hash for a result (any JSON value), or None for the refusal of a looping call.

    `tool` is normalized. Raises `ValueError` for the details of a delivery nested too deeply.
    """
    if not isinstance(result, dict):
        return ["value", result]
    details = result.get("details")
    if not isinstance(details, dict):
        details = _NO_DETAILS
    status = details.get("status")
    if status == "blocked" and details.get("deniedReason") == "tool-loop":
        return None
    if tool == "exec":
        command = _command_identity(status, details, result)
        if command is not None:
            return ["exec", command]
    elif tool == "process":
        action = action_of(params)
        if action == "poll":
            return ["poll", _job_identity(_POLL_MEMBERS, details, result)]
        if action == "log":
            return ["log", _job_identity(_LOG_MEMBERS, details, result)]
    elif tool == "sessions_send" or (tool == "message" and action_of(params) in SEND_ACTIONS):
        return ["send", without_volatile(details)]
    return ["result", {"details": details, "text": _text(result)}]


def action_of(params: Any) -> str | None:
    """Return `params.action` when it is a string."""
    if not isinstance(params, dict):
        return None
    action = params.get("action")
    return action if isinstance(action, str) else None


def _command_identity(status: Any, details: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any] | None:
    if status in ("completed", "failed"):
        exit_code = details.get("exitCode")
        return {
            "status": status,
            "exitCode": exit_code if isinstance(exit_code, int | float) and not isinstance(exit_code, bool) else None,
            "timedOut": details.get("timedOut") is True,
            "output": trim(_string(details, "aggregated")) or _text(result),
        }
    if status == "running":
        return {"status": status, "tail": _string(details, "tail")}
    if status in ("approval-pending", "approval-unavailable"):
        return {
            "status": status,
            "reason": details.get("reason"),
            "host": details.get("host"),
            "command": _string(details, "command"),
            "warningText": _string(details, "warningText"),
        }
    return None


def _job_identity(members: tuple[str, ...], details: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    identity = {member: details.get(member) for member in members}
    identity["text"] = _text(result)
    if "status" in details:
        identity["status"] = details["status"]
    return identity


def _string(details: Mapping[str, Any], member: str) -> str:
    value = details.get(member)
    return value if isinstance(value, str) else ""


def _text(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    if not isinstance(content, list | tuple):
        return ""
    return trim(
        "\n".join(
            entry["text"]
            for entry in content
            if isinstance(entry, dict) and isinstance(entry.get("type"), str) and isinstance(entry.get("text"), str)
        )
    )
