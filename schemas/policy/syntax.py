"""Parses JSON5 and says in plain words where and why a text is none."""

import re
from typing import Any, Final

import pyjson5

from schemas.policy.positions import Lines
from schemas.policy.problems import PolicyError, PolicyProblem

#: Deeper than any configuration; the library's own limit of 32 would refuse some.
MAX_DEPTH: Final = 200

#: What the library says (a pattern) and what a person is told; `{found}` is the word at the place.
_SENTENCES: Final = (
    ("No JSON data", "the file has nothing but comments; write {{}} for a policy without settings"),
    ("Maximum nesting", f"nested more than {MAX_DEPTH} deep; is this a policy file?"),
    ("Extra data", "the document has ended before this; remove what follows, or the bracket too many before it"),
    ("Unclosed b'object'", "the object that begins here never ends; add the missing }}"),
    ("Unclosed b'array'", "the list that begins here never ends; add the missing ]"),
    ("Unclosed b'string'", "the string that begins here does not end on its line; add the missing quote"),
    ("Unclosed b'comment'", "the comment that begins here never ends; add the missing */"),
    ("Unclosed b'NumericLiteral'", "{found} is no number in JSON5"),
    ("Stray b'comma'", "one comma too many; remove it"),
    ("Stray b'slash'", "a lone / begins no comment; write // or /*"),
    ("or U.007d", "expected , or }}, found {found}; is a comma missing before it?"),
    ("or U.005d", "expected , or ], found {found}; is a comma missing before it?"),
    ("b'colon'", "expected : after the key, found {found}"),
    ("IdentifierStart", "expected a key, found {found}; a key with other characters than letters and digits needs quotes"),
    ("hexadecimal|[Ee]scape", "wrong escape in a string; write a backslash as \\\\"),
    ("Expected U.005c", "half of a surrogate pair in a string; write both halves"),
    ("", "expected a value, found {found}; strings need quotes"),
)
#: The library names the start of these, of others a character in or after them.
_NAMED_BY_START: Final = re.compile(r"Unclosed|Stray|No JSON|Maximum|Expected U")

_NEAR: Final = re.compile(r"near (\d+)")
_WORD: Final = re.compile(r"[^\s,:\[\]{}\"'/]+")
_COMMENT: Final = r"//[^\n\r\u2028\u2029]*|/\*.*?\*/"
_SKIPPED: Final = re.compile(rf"(?:[\s\ufeff]+|{_COMMENT})*", re.DOTALL)
_STRING: Final = r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'"""
_SEPARATED_DIGITS: Final = re.compile(rf"{_COMMENT}|{_STRING}|(?P<number>(?<![\w$\\])[0-9]\w*_\w*)", re.DOTALL)


def parse_json5(text: str, *, name: str) -> Any:
    """Return the value of a JSON5 text.

    Raises `PolicyError` with the place of the first fault.
    """
    if not text.strip("\ufeff \t\r\n"):
        raise PolicyError(name, [PolicyProblem(message="the file is empty; write {} for a policy without settings")])
    try:
        value = pyjson5.decode(text, MAX_DEPTH)
    except pyjson5.Json5DecoderException as error:
        reason = str(error.args[0])
        offset = _offset(text, reason, found=error.args[2] if len(error.args) > 2 else None)
        sentence = next(sentence for pattern, sentence in _SENTENCES if re.search(pattern, reason))
        raise _syntax_error(name, text, offset, sentence.format(found=_word_at(text, offset))) from None
    # The library lets 1_000 pass; JSON5, and so OpenClaw, does not know it.
    for match in _SEPARATED_DIGITS.finditer(text):
        if number := match["number"]:
            raise _syntax_error(name, text, match.start(), f"{number} is no number in JSON5; write it without _")
    return value


def _syntax_error(name: str, text: str, offset: int, message: str) -> PolicyError:
    line, column = Lines(text).locate(offset)
    return PolicyError(name, [PolicyProblem(line=line, column=column, message=message)])


def _offset(text: str, reason: str, *, found: object) -> int:
    """Return the offset that an error of the library is about; it gives a number in its text that mostly counts from 1."""
    near = _NEAR.search(reason)
    start = min(max(int(near[1]) - 1, 0), len(text) - 1) if near else 0
    if "b'comment'" in reason:
        return max(text.rfind("/*", 0, start + 1), 0)
    if reason.startswith("Extra data"):
        # Behind a bracket or quote it counts from 0, behind a bare word or number from 1.
        match = _SKIPPED.match(text, start + 1 if text[start] in "]}\"'" else start)
        return match.end() if match else start
    if isinstance(found, str) and not _NAMED_BY_START.match(reason):
        return max(text.find(found, start), start)
    return start


def _word_at(text: str, offset: int) -> str:
    match = _WORD.match(text, offset)
    word = match[0] if match else text[offset : offset + 1]
    return word if len(word) <= 40 else f"{word[:40]}..."
