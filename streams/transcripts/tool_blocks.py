"""Calls and results as content blocks, the way the Anthropic API writes them."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple


class ToolBlock(NamedTuple):
    """A `tool_use` block (`content` is the input) or a `tool_result` block, whoever ran the tool."""

    kind: Literal["use", "result"]
    call_id: Any
    tool: Any
    content: Any
    is_error: bool


def tool_blocks(content: Any) -> Iterator[ToolBlock]:
    """Yield the calls and results among the blocks of a message: those of the client, of servers and of MCP servers."""
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            continue
        if kind.endswith("tool_use"):
            yield ToolBlock("use", block.get("id"), block.get("name"), block.get("input"), is_error=False)
        elif kind.endswith("tool_result"):
            inner = block.get("content")
            failed = block.get("is_error") is True or (isinstance(inner, dict) and str(inner.get("type")).endswith("_error"))
            yield ToolBlock("result", block.get("tool_use_id"), None, inner, is_error=failed)
