"""The missing tool that the text of an error names.

Two wordings count, anywhere in the text, also within a word; the first has precedence wherever it stands. Letters are ASCII
ones and their case is ignored, white space is JavaScript's, one or more characters of it:

1. `unknown tool`, one or more of `:` and white space, name;
2. `tool`, white space, name, white space, `not found` or `is not available`.

A name is one or more of `a-z A-Z 0-9 _ . -`, and may have a quote (`"`, `'` or a backtick) before and after it.
"""

import re

from schemas.javascript_whitespace import WHITE_SPACE

#: As long as `unknown_tool` of an event may be: run states keep the name for every call of the history.
MAX_NAME_LENGTH = 256

_SPACE = f"[{WHITE_SPACE}]"
_NAME = r"""["'`]?([a-z0-9_.-]+)"""
_FLAGS = re.IGNORECASE | re.ASCII
_UNKNOWN_TOOL = re.compile(f"unknown tool[:{WHITE_SPACE}]+{_NAME}", _FLAGS)
_TOOL_NOT_FOUND = re.compile(rf"""tool{_SPACE}+{_NAME}["'`]?{_SPACE}+(?:not found|is not available)""", _FLAGS)


def missing_tool(text: str) -> str | None:
    """Return the missing tool that an error text names, in lower case, or None.

    The time is linear in the length. A name is cut to its first `MAX_NAME_LENGTH` characters.
    """
    # Case-insensitive search looks at every character in turn; most error texts do not speak of tools.
    if "tool" not in text.lower():
        return None
    match = _UNKNOWN_TOOL.search(text) or _TOOL_NOT_FOUND.search(text)
    return match[1][:MAX_NAME_LENGTH].lower() if match else None
