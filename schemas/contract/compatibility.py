"""What may not change in a published schema: the checker behind the compatibility rules of `docs/contract.md`.

Events and policies are written by others and read by us, so a schema may only come to accept more. Decisions and markers are
written by us and read by others, so a schema may only come to promise more. The checker knows the keywords that our schemas use;
a change that it cannot judge counts as a break.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schemas.contract.data_schemas import View

Json = Any

_ANNOTATIONS: Final = frozenset({"$schema", "$id", "$defs", "$comment", "title", "description", "examples", "default"})
_AT_LEAST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_JUDGED: Final = {*_ANNOTATIONS, *_AT_LEAST, *_AT_MOST} | {
    "type", "enum", "const", "required", "properties", "additionalProperties", "items", "anyOf"
}  # fmt: skip
_ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A change that someone's working program does not survive; `place` is the file and a dotted path within the message."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class _Side:
    """A schema with the document that its references point into."""

    schema: Json
    root: Mapping[str, Any]

    def at(self, schema: Json) -> "_Side":
        return _Side(schema, self.root).resolved()

    def resolved(self) -> "_Side":
        schema = self.schema
        while isinstance(schema, dict) and "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]], **rest}
        # true and false are the schemas that accept everything and nothing.
        return _Side({} if schema is True else schema, self.root)

    @property
    def types(self) -> frozenset[str]:
        given = self.schema.get("type", _ALL_TYPES)
        types = frozenset([given] if isinstance(given, str) else given)
        return types | {"integer"} if "number" in types else types

    @property
    def values(self) -> list[Json] | None:
        if "const" in self.schema:
            return [self.schema["const"]]
        values: list[Json] | None = self.schema.get("enum")
        return values


def compare(old: Mapping[str, Any], new: Mapping[str, Any], *, view: View, place: str = "") -> list[Break]:
    """Return the breaks between two versions of the schema of one message; none when the new one is compatible."""
    before, after = _Side(old, old).resolved(), _Side(new, new).resolved()
    found = [
        *_removed(before, after, place),
        *(_covers(after, before, place) if view == "read" else _covers(before, after, place)),
    ]
    words = (
        ("no longer accepted", "required from now on") if view == "read" else ("was not written before", "not always there now")
    )
    return [
        Break(place=at, message=_WORDS[kind].format(*words) + (f": {detail}" if detail else "")) for at, kind, detail in found
    ]


_WORDS: Final = {"removed": "removed", "narrower": "{0}", "required": "{1}"}
_Found = Iterator[tuple[str, str, str]]


def compare_folders(old: Path, new: Path, *, views: Mapping[str, View]) -> list[Break]:
    """Compare the schema files of two folders; `views` has the file names (all are `read` that are not in it)."""
    breaks: list[Break] = []
    for file in sorted(old.glob("*.json")):
        counterpart = new / file.name
        if not counterpart.exists():
            breaks.append(Break(place=file.name, message="removed"))
            continue
        before, after = (json.loads(path.read_text("utf-8")) for path in (file, counterpart))
        breaks += compare(before, after, view=views.get(file.name, "read"), place=file.name)
    return breaks


def _removed(old: _Side, new: _Side, place: str) -> _Found:
    if not (isinstance(old.schema, dict) and isinstance(new.schema, dict)):
        return
    after = new.schema.get("properties", {})
    for name, schema in old.schema.get("properties", {}).items():
        if schema is False:
            continue
        if name not in after:
            yield f"{place}.{name}", "removed", ""
        else:
            yield from _removed(old.at(schema), new.at(after[name]), f"{place}.{name}")
    if "items" in old.schema and "items" in new.schema:
        yield from _removed(old.at(old.schema["items"]), new.at(new.schema["items"]), f"{place}[]")
    for before in old.schema.get("anyOf", ()):
        for later in new.schema.get("anyOf", ()):
            if old.at(before).schema.get("title") == new.at(later).schema.get("title") is not None:
                yield from _removed(old.at(before), new.at(later), place)


def _covers(wide: _Side, narrow: _Side, place: str) -> _Found:
    """Yield where `wide` does not accept what `narrow` accepts."""
    if wide.schema is False or narrow.schema is False:
        if narrow.schema is not False:
            yield place, "narrower", "nothing may stand here"
        return
    more, less = wide.schema, narrow.schema
    branches = less.get("anyOf", [])
    if "anyOf" in more:
        for branch in branches or [{key: value for key, value in less.items() if key != "anyOf"}]:
            if not any(not [*_covers(wide.at(other), narrow.at(branch), place)] for other in more["anyOf"]):
                yield place, "narrower", _short(narrow.at(branch).schema)
    elif branches:
        rest = {key: value for key, value in less.items() if key != "anyOf"}
        for branch in branches:
            yield from _covers(wide, narrow.at(_merged(rest, narrow.at(branch).schema)), place)
        return
    yield from _covers_values(wide, narrow, place)
    yield from _covers_members(wide, narrow, place)
    for keyword in sorted(more.keys() - _JUDGED):
        if more[keyword] != less.get(keyword):
            yield place, "narrower", f"{keyword} is another"


def _covers_values(wide: _Side, narrow: _Side, place: str) -> _Found:
    more, less = wide.schema, narrow.schema
    if lost := narrow.types - wide.types:
        yield place, "narrower", f"type {', '.join(sorted(lost))}"
    if (allowed := wide.values) is not None:
        given = narrow.values
        lost_values = ["other values"] if given is None else [json.dumps(value) for value in given if value not in allowed]
        if lost_values:
            yield place, "narrower", ", ".join(lost_values)
    for keyword in _AT_LEAST:
        if keyword in more and less.get(keyword, -float("inf")) < more[keyword]:
            yield place, "narrower", f"{keyword} {less.get(keyword, 'none')}, against {more[keyword]}"
    for keyword in _AT_MOST:
        if keyword in more and less.get(keyword, float("inf")) > more[keyword]:
            yield place, "narrower", f"{keyword} {less.get(keyword, 'none')}, against {more[keyword]}"
    if "items" in more:
        yield from _covers(wide.at(more["items"]), narrow.at(less.get("items", {})), f"{place}[]")


def _covers_members(wide: _Side, narrow: _Side, place: str) -> _Found:
    more, less = wide.schema, narrow.schema
    for name in more.get("required", ()):
        if name not in less.get("required", ()):
            yield f"{place}.{name}", "required", ""
    members, others = more.get("properties", {}), less.get("properties", {})
    for name, schema in members.items():
        if name in others:
            yield from _covers(wide.at(schema), narrow.at(others[name]), f"{place}.{name}")
        elif less.get("additionalProperties") is not False and wide.at(schema).schema is False:
            yield f"{place}.{name}", "narrower", "nothing may stand here"
    if more.get("additionalProperties") is False:
        if less.get("additionalProperties") is not False:
            yield place, "narrower", "members that are not named"
        for name in others.keys() - members.keys():
            yield f"{place}.{name}", "narrower", "not a known member"


def _merged(rest: Mapping[str, Any], branch: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**rest, **branch}
    if "required" in rest or "required" in branch:
        merged["required"] = [*rest.get("required", ()), *branch.get("required", ())]
    if "properties" in rest or "properties" in branch:
        both = dict(rest.get("properties", {}))
        for name, schema in branch.get("properties", {}).items():
            both[name] = {**both.get(name, {}), **schema} if isinstance(schema, dict) else schema
        merged["properties"] = both
    return merged


def _short(schema: Json) -> str:
    text = json.dumps(schema)
    return text if len(text) <= 60 else f"{text[:57]}..."
