"""Where the keys and values of a JSON5 text stand.

The JSON5 library that we use tells no positions (and the ones that do take valid files for invalid, or hang on an unclosed
comment). So it judges the text first, and this scanner, which only knows brackets, strings and words, then finds the places
in a text that is known to be valid.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyjson5

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>    [\s\ufeff,:]+ | //[^\n\r\u2028\u2029]* | /\*.*?\*/ )
  | (?P<open>    [\[{] )
  | (?P<close>   [\]}] )
  | (?P<string>  "[^"\\]*(?:\\.[^"\\]*)*" | '[^'\\]*(?:\\.[^'\\]*)*' )
  | (?P<word>    [^\s\ufeff,:\[\]{}"'/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(slots=True)
class Place:
    """A value of the text: its offset and, inside it, the keys of an object or the items of a list.

    A key that is given more than once has one (offset of the key, value) for each time.
    """

    offset: int
    members: dict[str, list[tuple[int, "Place"]]] = field(default_factory=dict)
    items: list["Place"] = field(default_factory=list)

    def at(self, path: Sequence[str | int]) -> "Place":
        """Follow keys and list indexes; of a key that is given twice the last one counts, as for the library."""
        place = self
        for step in path:
            place = place.items[step] if isinstance(step, int) else place.members[step][-1][1]
        return place

    def key_offset(self, path: Sequence[str | int]) -> int:
        """Return where the key that ends the path stands."""
        *parents, key = path
        return self.at(parents).members[str(key)][-1][0]


class Lines:
    """Turns offsets into lines and columns, both counted from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def find_places(text: str) -> Place:
    """Return the places of a valid JSON5 text; no recursion, so any depth will do."""
    root: Place | None = None
    open_places: list[tuple[Place, bool]] = []  # with: is it an object?
    key: tuple[str, int] | None = None
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "close":
            open_places.pop()
            continue
        if kind != "open" and open_places and open_places[-1][1] and key is None:
            key = _key(match.group()), match.start()
            continue
        place = Place(match.start())
        if not open_places:
            root = place
        elif key is None:
            open_places[-1][0].items.append(place)
        else:
            open_places[-1][0].members.setdefault(key[0], []).append((key[1], place))
            key = None
        if kind == "open":
            open_places.append((place, match.group() == "{"))
    if root is None:
        raise ValueError("a JSON5 text has at least one value")
    return root


def _key(token: str) -> str:
    if "\\" not in token:
        return token[1:-1] if token[0] in "\"'" else token
    return str(next(iter(pyjson5.decode(f"{{{token}:0}}"))))
