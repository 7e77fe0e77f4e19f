"""Tool names as they count: one name for all the ways a tool is written, and which calls are polls."""

from functools import lru_cache
from typing import Any, Final

from schemas.javascript_whitespace import trim
from schemas.outcome_identity import action_of

#: Other names of the same tools.
ALIASES: Final = {"bash": "exec", "apply-patch": "apply_patch"}


# Bounded: names come from models, which make some up. An event's tool name has at most 256 characters.
@lru_cache(maxsize=4096)
def normalize_tool(name: str) -> str:
    """Return the name that counts: white space at both ends removed (JavaScript's), lower case, aliases resolved.

    Lower case is Unicode's default mapping without regard to a locale, as in JavaScript's `toLowerCase`.
    """
    lower = trim(name).lower()
    return ALIASES.get(lower, lower)


def is_poll(tool: str, params: Any) -> bool:
    """Say whether a call asks for news of something that goes on, so that repeating it is no fault in itself.

    Polls are the tool `command_status`, and the tool `process` with the action `poll` or `log`. `tool` need not be normalized.
    """
    name = normalize_tool(tool)
    return name == "command_status" or (name == "process" and action_of(params) in ("poll", "log"))
