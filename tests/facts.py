"""The engine's facts as tests handle them: read as a dictionary, and made again with a few of them changed."""

from typing import Any

from streams.detection.facts import Facts

FIELDS = (
    "kind",
    "partition",
    "offset",
    "time",
    "sequence",
    "session_id",
    "agent_id",
    "call_id",
    "key",
    "poll",
    "outcome",
    "unknown_tool",
    "arms",
)


def as_dict(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in FIELDS}


def changed(facts: Facts, **changes: Any) -> Facts:
    return Facts(**as_dict(facts) | changes)
