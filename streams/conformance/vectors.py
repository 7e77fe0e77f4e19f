"""Vector files: recorded steps and the verdict expected at each, and how a step becomes an event."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas import cloudevents
from schemas.events import CompactionCompleted, RunEvent, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.fingerprints import MISSING, args_hash, is_poll, normalize_tool, outcome_fingerprint
from streams.gateway.verdict import Verdict
from streams.gateway.verdict_map import Standing, VerdictMap

SOURCE = "loopwarden-conformance"
Json = dict[str, Any]

#: What has to be equal about a warning or a block.
_COMPARED = ("detector", "level", "count", "paired_tool")


@dataclass(frozen=True, slots=True)
class Vector:
    """One recorded scenario."""

    id: str
    policy: Json
    agent_id: str | None
    steps: list[Json]
    expect: list[Json]


@dataclass(frozen=True, slots=True)
class Difference:
    """A step whose answer is not the recorded one; steps count from 1."""

    vector: str
    step: int
    what: str

    def __str__(self) -> str:
        return f"{self.vector} step {self.step}: {self.what}"


class VectorError(ValueError):
    """A file that is no vector file; names file and line."""


def read_vectors(path: Path) -> Iterator[Vector]:
    """Yield the vectors of a file.

    Raises `VectorError` naming file and line. The standard parser keeps lone surrogates and big integers.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VectorError(f"{path}: cannot be read ({error}): give a vector file (JSON lines)") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            vector = Vector(raw["id"], raw.get("policy") or {}, raw.get("agent_id"), raw["steps"], raw["expect"])
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise VectorError(f"{path}:{number}: not a conformance vector ({error!r})") from None
        if len(vector.steps) != len(vector.expect):
            raise VectorError(f"{path}:{number}: {len(vector.steps)} steps, but {len(vector.expect)} expectations")
        yield vector


def run_of(step: Json, *, prefix: str = "") -> str:
    """Return the run id that a step's events carry."""
    return prefix + (step.get("run_id") or f"session:{step.get('session_key', '')}")


def event_of(step: Json, number: int, *, blocked: bool, hashed: bool, run_id: str, agent_id: str | None) -> tuple[str, bytes]:
    """Return the type and the wire form of a step's event; its sequence is the step's number."""
    data: Json = {"run_id": run_id}
    if agent_id is not None:
        data["agent_id"] = agent_id
    model: type[RunEvent]
    if step["kind"] == "compaction":
        model = CompactionCompleted
        data["will_retry"] = True
    else:
        data["tool"] = step["tool"]
        if step.get("call_id") is not None:
            data["call_id"] = step["call_id"]
        if hashed:
            data["args_hash"] = args_hash(step["params"])
            data["poll"] = is_poll(step["tool"], step["params"])
        else:
            data["params"] = step["params"]
        if step["kind"] == "outcome":
            model = ToolCallFinished
            data.update(_outcome(step, hashed=hashed))
        elif blocked:
            model = ToolCallBlocked
            data["reason"] = "loop"
        else:
            model = ToolCallStarted
    event_type = model.event_type()
    wire = cloudevents.structured(
        event_type=event_type, source=SOURCE, event_id=f"{run_id}:{number}", run_id=run_id, data=data, sequence=number
    )
    return event_type, wire


def nudge(number: int, *, run_id: str, agent_id: str) -> tuple[str, bytes]:
    """Return an event that changes nothing: the call of a tool that was refused for reasons of its own."""
    data: Json = {"run_id": run_id, "agent_id": agent_id, "tool": "none", "params": {}, "reason": "other"}
    event_type = ToolCallBlocked.event_type()
    wire = cloudevents.structured(
        event_type=event_type, source=SOURCE, event_id=f"{run_id}:{number}", run_id=run_id, data=data, sequence=number
    )
    return event_type, wire


def _outcome(step: Json, *, hashed: bool) -> Json:
    sent: Json = {name: step[name] for name in ("result", "error") if name in step}
    if not hashed:
        return sent
    fingerprint = outcome_fingerprint(
        step["tool"], step["params"], result=sent.get("result", MISSING), error=sent.get("error", MISSING)
    )
    facts = {"outcome_hash": fingerprint.outcome_hash, "unknown_tool": fingerprint.unknown_tool, "is_error": fingerprint.is_error}
    return {name: value for name, value in facts.items() if value is not None}


def answer_of(gate: VerdictMap, step: Json, run_id: str) -> Standing | None:
    """Ask a fold of decisions about a call step; a warning is given once."""
    standing = gate.lookup(run_id, normalize_tool(step["tool"]), args_hash(step["params"]))
    if standing is not None and standing.action == "warn":
        gate.take_warning(run_id, standing)
    return standing


def answer_difference(answer: Standing | Verdict | None, expected: Json) -> str | None:
    """Say how an answer to a call step differs from the expected one."""
    got: Json = {"action": "none"}
    if answer is not None and answer.action != "allow":
        got = {"action": answer.action, **{name: getattr(answer, name) for name in _COMPARED}}
    wanted: Json = {"action": "none"}
    if expected["action"] not in ("none", "warn_suppressed"):
        wanted = {"action": expected["action"], **{name: expected.get(name) for name in _COMPARED}}
    return None if got == wanted else f"expected {wanted}, got {got}"
