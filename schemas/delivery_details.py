"""What stays the same when the same message is sent again: the details of a delivery without ids and times."""

from collections.abc import Mapping
from typing import Any

from schemas.canonical_json import MAX_DEPTH

#: Members that are new with every delivery.
VOLATILE_KEYS = frozenset(
    (
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    )
)


def without_volatile(value: Any, *, levels: int = MAX_DEPTH) -> Any:
    """Copy a JSON value without the volatile members of its objects, at any depth.

    Left out are `VOLATILE_KEYS`, and `id` in an object that looks like a delivered message. Raises `ValueError` for more than
    `levels` levels.
    """
    if not isinstance(value, dict | list | tuple):
        return value
    if levels <= 0:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    if not isinstance(value, dict):
        return [without_volatile(item, levels=levels - 1) for item in value]
    delivered = _is_delivered_message(value)
    return {
        key: without_volatile(item, levels=levels - 1)
        for key, item in value.items()
        if key not in VOLATILE_KEYS and not (delivered and key == "id")
    }


def _is_delivered_message(value: Mapping[str, Any]) -> bool:
    """Whether an object has a string `id` and `text`, and a sign of a message: its direction, sender, account or conversation."""
    return (
        isinstance(value.get("id"), str)
        and isinstance(value.get("text"), str)
        and (
            any(isinstance(value.get(key), str) for key in ("direction", "senderId", "accountId"))
            or isinstance(value.get("conversation"), dict)
        )
    )
