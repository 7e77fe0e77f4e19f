"""What a command run by Codex put out, without what is new each time: how long it took, chunk ids, token counts.

Codex writes outputs in three ways: JSON text with `output` and `metadata`, text with a few header lines above `Output:`, or
content items (openai/codex, codex-rs/core/src/tools). An exit code is kept as a fact of the outcome.
"""

import re
from typing import Any

from schemas import json_text
from streams.transcripts.content import tool_result

_MARK = "Output:"
_HEADER_LINE = re.compile(
    r"(?:Chunk ID|Wall time|Original token count|Total output lines|Original output tokens): .*"
    r"|(?:Process exited with code|Exit code:?) (?P<code>-?\d+)"
    r"|(?P<running>Process running with session ID .*)|\s*"
)


def stable_result(output: Any) -> tuple[Any, bool]:
    """Return a result whose identity is what came out and the exit code, and whether Codex calls it a failure."""
    if isinstance(output, dict) and ("success" in output or "body" in output or "content" in output or "content_items" in output):
        inner = output.get("body", output.get("content_items") or output.get("content"))
        return stable_result(inner)[0], output.get("success") is False
    if not isinstance(output, str):
        return tool_result(output), False
    if output.startswith("{"):
        return _from_json(output), False
    return _from_text(output), False


def _from_json(output: str) -> Any:
    try:
        value = json_text.loads(output.encode(errors="surrogatepass"))
    except ValueError:
        return output
    if not isinstance(value, dict) or not isinstance(value.get("output"), str):
        return output
    metadata = value.get("metadata")
    facts = metadata if isinstance(metadata, dict) else value
    return tool_result(value["output"], details={"exit_code": facts.get("exit_code")})


def _from_text(output: str) -> Any:
    header, mark, text = output.partition(f"\n{_MARK}")
    if not mark:
        if not output.startswith(_MARK):
            return output
        header, text = "", output[len(_MARK) :]
    details: dict[str, Any] = {"exit_code": None}
    for line in header.split("\n"):
        match = _HEADER_LINE.fullmatch(line)
        if match is None:
            return output
        if match["code"] is not None:
            details["exit_code"] = int(match["code"])
        if match["running"] is not None:
            details["running"] = True
    return tool_result(text.lstrip("\n"), details=details)
