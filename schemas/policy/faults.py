"""The faults of a parsed policy file: everything in our blocks that the detection would ignore, guess or raise."""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.policy import model
from schemas.policy.positions import Lines, Place
from schemas.policy.problems import PolicyProblem

KeyPath = tuple[str | int, ...]

_CHILDREN: Final[Mapping[type[model.Container], Mapping[str, type[model.Container]]]] = {
    model.Policy: {"tools": model.Tools, "loopwarden": model.Loopwarden, "agents": model.Agents},
    model.Agents: {"list": model.AgentEntry},
    model.AgentEntry: {"tools": model.Tools, "loopwarden": model.Loopwarden},
    model.Tools: {"loopDetection": model.LoopDetection},
    model.LoopDetection: {"detectors": model.Detectors, "postCompactionGuard": model.PostCompactionGuard},
}

#: Looked for under a slightly wrong name too: a block that is not found protects nobody.
_BLOCK_NAMES: Final[Mapping[type[model.Container], str]] = {
    model.Policy: "loopwarden",
    model.AgentEntry: "loopwarden",
    model.Tools: "loopDetection",
}

#: Keys of a loop detection block that are nothing else anywhere in an openclaw.json.
_TELLING_KEYS: Final = tuple(key for key in model.LoopDetection.key_names() if key not in {"enabled", "detectors"})

#: Keys found at the wrong level, and where they belong.
_MISPLACED: Final[Mapping[type[model.Container], Mapping[str, str]]] = {
    model.Policy: {"loopDetection": "into tools", **dict.fromkeys(_TELLING_KEYS, "into tools.loopDetection")},
    model.AgentEntry: {"loopDetection": "into tools", **dict.fromkeys(_TELLING_KEYS, "into tools.loopDetection")},
    model.Tools: {"loopwarden": "beside tools", **dict.fromkeys(_TELLING_KEYS, "into loopDetection")},
}

_EXPECTED: Final = {"bool_type": "true or false", "string_type": "a string", "list_type": "a list", model.BLANK_ID: "an agent id"}


@dataclass(frozen=True, slots=True)
class _Fault:
    path: KeyPath
    message: str
    #: Where it stands; None: at the value that the path leads to.
    offset: int | None = None


def find_faults(document: object, *, places: Place, lines: Lines) -> list[PolicyProblem]:
    """Return all faults of a document, each with its place in the text that `places` and `lines` are of."""
    problems = []
    for fault in (*_values(document, places), *_keys(places, model.Policy, (), lines), *_misordered(document, places)):
        line, column = lines.locate(places.at(fault.path).offset if fault.offset is None else fault.offset)
        problems.append(PolicyProblem(line=line, column=column, key_path=_dotted(fault.path), message=fault.message))
    return problems


def _values(document: object, places: Place) -> Iterator[_Fault]:
    """Yield unknown keys and values of the wrong kind, as the models see them."""
    try:
        model.Policy.model_validate(document)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = detail["loc"]
            if detail["type"] == "extra_forbidden":
                parent = _block_at(path[:-1])
                yield _Fault(path, _unknown_key(str(path[-1]), path[:-1], parent.key_names()), places.key_offset(path))
            elif detail["type"] == "missing":
                yield _Fault(path[:-1], f"{_dotted(path[:-1])}: an entry without {path[-1]} applies to no agent; add one")
            else:
                yield _Fault(path, _wrong_value(path, detail))


def _wrong_value(path: KeyPath, detail: ErrorDetails) -> str:
    value = detail["input"]
    suggestion = ""
    if detail["type"] == "literal_error":
        names = model.DETECTOR_NAMES if "shadow" in path else model.MODES
        expected = "one of " + ", ".join(names) if len(names) > 2 else " or ".join(names)
        suggestion = _did_you_mean(value, names) if isinstance(value, str) else ""
    elif detail["type"] == model.NOT_A_WHOLE_NUMBER:
        expected = detail["msg"]
    else:
        expected = _EXPECTED.get(detail["type"], "an object")
    return f"{_dotted(path) or 'the document'}: expected {expected}, found {_described(value)}{suggestion}"


def _keys(place: Place, kind: type[model.Container], path: KeyPath, lines: Lines) -> Iterator[_Fault]:
    """Yield keys given twice, blocks with a slightly wrong name and keys at the wrong level."""
    for key, given in place.members.items():
        ours = issubclass(kind, model.Block) or key in kind.key_names()
        if ours and len(given) > 1:
            line, column = lines.locate(given[0][0])
            message = f"{_dotted((*path, key))}: given twice, first at {line}:{column}; keep one"
            yield from (_Fault((*path, key), message, offset) for offset, _ in given[1:])
        elif not ours and key in _MISPLACED.get(kind, {}):
            yield _Fault(
                (*path, key), f"{_dotted((*path, key))} has no effect here; move it {_MISPLACED[kind][key]}", given[0][0]
            )
        elif not ours and kind in _BLOCK_NAMES and _closest(key, [_BLOCK_NAMES[kind]], cutoff=0.8):
            yield _Fault((*path, key), _unknown_key(key, path, [_BLOCK_NAMES[kind]]), given[0][0])
    for key, child in _CHILDREN.get(kind, {}).items():
        if key not in place.members:
            continue
        value = place.members[key][-1][1]
        if kind is model.Agents:
            for index, item in enumerate(value.items):
                yield from _keys(item, child, (*path, key, index), lines)
        else:
            yield from _keys(value, child, (*path, key), lines)


def _misordered(document: object, places: Place) -> Iterator[_Fault]:
    """Yield thresholds that were written in the wrong order in one block, which OpenClaw refuses to load."""
    policy = model.Policy.model_validate(document if isinstance(document, dict) else {}, context=model.LENIENT)
    scopes: list[tuple[KeyPath, model.Tools | None]] = [(("tools",), policy.tools)]
    raw = document.get("agents") if isinstance(document, dict) else None
    entries = raw.get("list") if isinstance(raw, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        tools = entry.get("tools") if isinstance(entry, dict) else None
        if isinstance(tools, dict):
            scopes.append((("agents", "list", index, "tools"), model.Tools.model_validate(tools, context=model.LENIENT)))
    for path, tools in scopes:
        block = tools.loop_detection if tools else None
        for low, high in model.misordered_thresholds(block) if block else []:
            scope = (*path, "loopDetection")
            values = {key: _described(_at(document, (*scope, key))) for key in (low, high)}
            message = f"{_dotted((*scope, high))}: {values[high]} is not above {low}: {values[low]}; raise it or lower {low}"
            yield _Fault((*scope, high), message)


def _at(document: Any, path: KeyPath) -> object:
    for step in path:
        document = document[step]
    return document


def _block_at(path: KeyPath) -> type[model.Container]:
    kind: type[model.Container] = model.Policy
    for step in path:
        if isinstance(step, str):
            kind = _CHILDREN[kind][step]
    return kind


def _unknown_key(key: str, parent: KeyPath, known: Iterable[str]) -> str:
    known = list(known)
    place = f" in {_dotted(parent)}" if parent else ""
    return f"unknown key {key}{place}{_did_you_mean(key, known) or '; known are ' + ', '.join(known)}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    match = _closest(word, known, cutoff=0.6)
    return f"; did you mean {match}?" if match else ""


def _closest(word: str, known: Iterable[str], *, cutoff: float) -> str | None:
    # Compared without case and separators: pingPong for ping_pong is the likeliest slip.
    plain = {name.replace("_", "").casefold(): name for name in known}
    # difflib takes time with the square of the length; no key of ours is as long.
    matches = difflib.get_close_matches(word[:60].replace("_", "").replace("-", "").casefold(), plain, n=1, cutoff=cutoff)
    return plain[matches[0]] if matches else None


def _dotted(path: KeyPath) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _described(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        return f'the string "{shown}"'
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int | float):
        return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."
    return "a list" if isinstance(value, list) else "an object"
