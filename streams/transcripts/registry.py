"""The formats that can be read, and which of them a record is in."""

from collections.abc import Mapping
from typing import Any

from streams.transcripts.format import Format
from streams.transcripts.formats import atif, calls, claude_code, codex, events, openai_chat, openai_responses, openclaw, otlp

#: All formats by name. The order is that of recognition: the more special marks come first.
FORMATS: Mapping[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (events, calls, atif, otlp, codex, openclaw, claude_code, openai_responses, openai_chat)
}


def format_of(value: Any) -> Format | None:
    """Return the format whose marks a record bears, or None."""
    return next((found for found in FORMATS.values() if found.recognises(value)), None)
