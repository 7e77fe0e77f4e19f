"""Records of the policies topic: a policy for an agent, or for all (`*`), and what they say together."""

import uuid
from collections.abc import Mapping
from typing import Any, Self

from schemas import cloudevents, json_text
from schemas.cloudevents import TYPE_PREFIX, Headers, InvalidEventError
from schemas.policy import PolicyDocument, PolicyError, parse_policy
from schemas.policy.document import normalise_agent_id

POLICY_TYPE = f"{TYPE_PREFIX}policy.v1"

#: The largest policy, in bytes of its JSON: it goes into one record of the workers' changelog and one of the decisions topic.
MAX_POLICY_BYTES = 900 * 1024

#: The key of the policy that holds for agents without one of their own.
DEFAULT_KEY = "*"


def policy_record(key: str, policy: PolicyDocument, *, source: str, time: int) -> bytes:
    """Write a policy as a structured CloudEvent; `time` in milliseconds.

    Raises `InvalidEventError` when the key of an agent comes with entries for agents.
    """
    document = policy.to_mapping()
    _check_key(key, document)
    return cloudevents.structured(
        event_type=POLICY_TYPE, source=source, event_id=str(uuid.uuid4()), data=document, time=time, subject=key
    )


def read_policy_record(key: bytes | None, value: bytes, headers: Headers = ()) -> tuple[str, PolicyDocument]:
    """Return the key and the policy of a record of the policies topic.

    Raises `InvalidEventError`: what a policy file may not say is refused here too, so that a typo never goes into force.
    """
    agent = policy_key(key)
    event = cloudevents.parse(value, headers)
    if event.type != POLICY_TYPE:
        raise InvalidEventError("unknown_type", f"type: expected {POLICY_TYPE}")
    if not isinstance(event.data, dict):
        raise InvalidEventError("invalid_data", "data: must be a policy document, a JSON object")
    _check_key(agent, event.data)
    try:
        document = parse_policy(json_text.dumps(event.data).decode(), name="data")
    except PolicyError as error:
        faults = "; ".join(f"{problem.key_path or 'data'}: {problem.message}" for problem in error.problems[:3])
        raise InvalidEventError("invalid_data", faults) from None
    return agent, document


def policy_bytes(policy: PolicyDocument) -> int:
    """Return the size of a policy that counts against `MAX_POLICY_BYTES`."""
    return len(json_text.dumps(policy.to_mapping()))


def policy_key(key: bytes | None) -> str:
    """Return the agent that a record of the policies topic is for; raises `InvalidEventError`."""
    try:
        agent = (key or b"").decode()
    except UnicodeDecodeError:
        raise InvalidEventError("key_mismatch", "key: must be UTF-8 text") from None
    if not agent.strip():
        raise InvalidEventError("key_mismatch", f"key: must be an agent id, or {DEFAULT_KEY} for the default policy")
    return agent


def _check_key(key: str, document: Mapping[str, Any]) -> None:
    if key != DEFAULT_KEY and document.get("agents"):
        raise InvalidEventError(
            "invalid_data", f"agents: the policy of one agent cannot have entries for agents; publish it under {DEFAULT_KEY}"
        )


class PublishedPolicies:
    """The latest policy under each key of the policies topic, and the policy that they make together.

    The default policy is the one under `*`, else `fallback` (the policy file of a worker). Each agent's own is laid over it, in
    place of an entry that the default policy has for that agent. `unreadable` are the keys whose latest record is bad while none
    before it is there any more (the topic is compacted): what was in force for them goes on.
    """

    def __init__(self, fallback: PolicyDocument) -> None:
        self.fallback = fallback
        self.by_key: dict[str, PolicyDocument] = {}
        self.unreadable: set[str] = set()

    def take(self, key: str, policy: PolicyDocument | None) -> Self:
        """Take in the next record; None (a tombstone) takes the policy under the key away."""
        self.unreadable.discard(key)
        if policy is None:
            self.by_key.pop(key, None)
        else:
            self.by_key[key] = policy
        return self

    def combined(self, *, in_force: PolicyDocument | None = None) -> PolicyDocument:
        """Return the policy that is to be in force; `in_force` is the one that is, for what cannot be read."""
        known = {key: self.by_key[key] for key in sorted(self.by_key)}
        before = in_force.to_mapping() if in_force is not None and self.unreadable else {}
        entries_before = {entry["id"]: entry for entry in before.get("agents", {}).get("list", [])}
        default = known.pop(DEFAULT_KEY, self.fallback).to_mapping()
        if DEFAULT_KEY in self.unreadable and in_force is not None:
            default = before
        own = {normalise_agent_id(key): policy.to_mapping() for key, policy in known.items()}
        own |= {agent: entries_before[agent] for agent in map(normalise_agent_id, self.unreadable) if agent in entries_before}
        if not own:
            return PolicyDocument.from_mapping(default)
        # The first entry of an agent counts.
        entries = [{**mapping, "id": agent} for agent, mapping in own.items()]
        others = default.get("agents", {}).get("list", [])
        return PolicyDocument.from_mapping({**default, "agents": {"list": [*entries, *others]}})
