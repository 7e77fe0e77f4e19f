"""What tools were given and what they answered, as logs write it, in the shapes that are fingerprinted.

An outcome's identity is its value when it is no object, else its `details` and the text of its `content`
(`schemas.outcome_identity`). So an object that is no tool result goes into `details` as a whole, and pictures and other blocks
without text are kept there as digests: two screenshots are the same outcome only when they are the same picture.
"""

from typing import Any

from schemas import json_text
from schemas.fingerprints import args_hash
from streams.transcripts.words import word

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


def arguments(value: Any) -> Any:
    """Return the arguments of a call: text that holds a JSON object is read, other text stays as it is."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            parsed = json_text.loads(value.encode(errors="surrogatepass"))
        except ValueError:
            return value
        return parsed if isinstance(parsed, dict) else value
    return value


def tool_result(content: Any, *, details: Any = None) -> Any:
    """Return a result for what a tool answered: text, a list of content blocks, or any other JSON value.

    `details` are further facts that tell this outcome from others.
    """
    if isinstance(content, list) and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content):
        texts = [{"type": "text", "text": block["text"]} for block in content if _is_text(block)]
        other = [_digest(block) for block in content if not _is_text(block)]
        if other:
            details = {"blocks": other} if details is None else {"blocks": other, "details": details}
        return {"content": texts} if details is None else {"content": texts, "details": details}
    if isinstance(content, dict | list):
        return {"content": [], "details": {"value": content} if details is None else {"value": content, "details": details}}
    if details is None:
        return content
    return {"content": [{"type": "text", "text": _plain(content)}], "details": details}


def error_message(content: Any) -> str:
    """Return the text of an error that is written as text, as content blocks or as any other JSON value."""
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and _is_text(block)]
        if texts:
            return "\n".join(texts)
    return _plain(content)


def _is_text(block: dict[str, Any]) -> bool:
    return word(block.get("type")) in _TEXT_TYPES and isinstance(block.get("text"), str)


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else json_text.dumps(content).decode(errors="replace")


def _digest(block: dict[str, Any]) -> str:
    try:
        return args_hash(block)
    except ValueError:  # nested too deeply
        return str(block.get("type"))
