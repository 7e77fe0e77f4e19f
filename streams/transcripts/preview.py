"""A short text for what a call was given."""

import json
from typing import Any

from schemas.fingerprints import MISSING

_WIDTH = 120


def preview(params: Any, *, width: int = _WIDTH) -> str:
    """Return arguments on one line, cut to `width` characters; empty where the log has hashes only."""
    if params is MISSING or params is None:
        return ""
    if isinstance(params, dict):
        text = ", ".join(f"{name}={_short(value, width)}" for name, value in list(params.items())[:20])
    else:
        text = _short(params, width)
    text = " ".join(text[: 4 * width].split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _short(value: Any, width: int) -> str:
    if isinstance(value, str):
        return value[: 4 * width]
    if isinstance(value, list | dict) and len(value) > width:
        return f"({len(value)} values)"
    return json.dumps(value, ensure_ascii=False, default=str)[: 4 * width]
