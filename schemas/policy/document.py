"""The policy document: what is kept of what was read, its version, and what holds for each agent."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Self

import orjson
import xxhash

from schemas.policy.effective import EffectivePolicy
from schemas.policy.model import LENIENT, AgentEntry, Block, Policy, Tools

#: White space as JavaScript trims it: U+FEFF is, U+001C to U+001F and U+0085 are not (Python has it the other way round).
_WHITE_SPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
_OUTSIDE_AN_ID: Final = re.compile(r"[^a-z0-9_-]+")


@lru_cache(maxsize=4096)
def normalise_agent_id(agent_id: str) -> str:
    """Return the form in which agent ids are compared.

    Trimmed, lower-cased, each run of characters outside `a-z0-9_-` as one dash: `" Night Owl "` is `night-owl`.
    """
    return _OUTSIDE_AN_ID.sub("-", agent_id.strip(_WHITE_SPACE).lower())


class PolicyDocument:
    """A policy in force: OpenClaw's and our blocks of a document, and what they mean for each agent.

    Only what has an effect is kept: values that count as null are null or left out, agent ids are in the form in which they
    are compared, entries that another one hides or that set nothing are gone. Documents that are equal in this form have the
    same `version`: the first 16 hex digits of the XXH3-128 of its JSON with sorted keys.
    """

    __slots__ = ("_by_agent", "_for_others", "_mapping", "version")

    version: str

    def __init__(self, policy: Policy) -> None:
        tools = _loop_detection(policy.tools, keep_nulls=False)
        ours = _plain(policy.loopwarden, keep_nulls=False)
        agents = _agent_blocks(policy.agents.entries or [] if policy.agents else [])
        self._mapping: dict[str, Any] = {}
        if tools:
            self._mapping["tools"] = {"loopDetection": tools}
        if ours:
            self._mapping["loopwarden"] = ours
        if agents:
            self._mapping["agents"] = {"list": agents}
        self.version = xxhash.xxh3_128_hexdigest(orjson.dumps(self._mapping, option=orjson.OPT_SORT_KEYS))[:16]
        self._for_others = EffectivePolicy.resolve(loop_detection=tools, loopwarden=ours, version=self.version)
        # Resolved here, once for each entry, and not on demand for each id: ids come from the wire and have no bound.
        self._by_agent = {
            entry["id"]: EffectivePolicy.resolve(
                loop_detection=_overlay(tools, entry.get("tools", {}).get("loopDetection", {})),
                loopwarden=_overlay(ours, entry.get("loopwarden", {})),
                version=self.version,
            )
            for entry in agents
        }

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Read any JSON object as OpenClaw's detection would; never raises for one.

        Unknown keys are ignored; a value that does not fit counts as null, a nested block that is none as missing.
        """
        return cls(Policy.model_validate(dict(document), context=LENIENT))

    def to_mapping(self) -> dict[str, Any]:
        """Return the kept blocks, ready for JSON; `from_mapping` gives an equal document of them."""
        copy: dict[str, Any] = orjson.loads(orjson.dumps(self._mapping))
        return copy

    def for_agent(self, agent_id: str | None) -> EffectivePolicy:
        """Return what holds for an agent: the first entry that matches its id, laid over the global blocks."""
        return self._by_agent.get(normalise_agent_id(agent_id or ""), self._for_others)

    def __eq__(self, other: object) -> bool:
        # By version: comparing two large policies for each event would take longer than all the rest.
        return self.version == other.version if isinstance(other, PolicyDocument) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.version)

    def __repr__(self) -> str:
        return f"PolicyDocument({self._mapping!r}, version={self.version!r})"


def _plain(block: Block | None, *, keep_nulls: bool) -> dict[str, Any]:
    given = block.model_dump(by_alias=True, exclude_unset=True) if block else {}
    return _without_nulls(given, keep_nulls=keep_nulls)


def _without_nulls(given: dict[str, Any], *, keep_nulls: bool) -> dict[str, Any]:
    # A null or empty nested block counts as missing everywhere; other nulls hide something in an agent's block only.
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, dict):
            if nested := _without_nulls(value, keep_nulls=keep_nulls):
                kept[key] = nested
        elif value is not None or (keep_nulls and key not in _NESTED_BLOCKS):
            kept[key] = value
    return kept


_NESTED_BLOCKS: Final = frozenset({"detectors", "postCompactionGuard"})


def _loop_detection(tools: Tools | None, *, keep_nulls: bool) -> dict[str, Any]:
    return _plain(tools.loop_detection if tools else None, keep_nulls=keep_nulls)


def _agent_blocks(entries: list[AgentEntry]) -> list[dict[str, Any]]:
    first: dict[str, AgentEntry] = {}
    for entry in entries:
        first.setdefault(normalise_agent_id(entry.id or ""), entry)
    blocks = []
    for agent_id, entry in first.items():
        block: dict[str, Any] = {}
        if tools := _loop_detection(entry.tools, keep_nulls=True):
            block["tools"] = {"loopDetection": tools}
        if ours := _plain(entry.loopwarden, keep_nulls=True):
            block["loopwarden"] = ours
        if block:
            blocks.append({"id": agent_id, **block})
    return blocks


def _overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _overlay(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return merged
