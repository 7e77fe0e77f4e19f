"""Conformance of the engine: events are parsed and applied in memory, decisions folded as a gate folds them."""

from schemas.events import CompactionCompleted, parse_event
from schemas.fingerprints import MISSING, args_hash, normalize_tool, outcome_fingerprint
from schemas.policy import PolicyDocument
from streams.conformance.vectors import Difference, Json, Vector, answer_difference, answer_of, event_of, run_of
from streams.detection.engine import Effect, apply, guard_status, judge_again
from streams.detection.facts import RunPartition, facts_of
from streams.detection.run_state import RunState
from streams.gateway.verdict_map import VerdictMap

_PARTITION = RunPartition("agent.tool-calls.v1", 0)
_NO_LIMIT = 1 << 40


def play_on_engine(vector: Vector, *, hashed: bool) -> list[Difference]:
    """Play one vector on the engine alone and return the differences; classes and the guard's state are compared too."""
    return _Play(vector, hashed=hashed).run()


class _Play:
    def __init__(self, vector: Vector, *, hashed: bool) -> None:
        self.vector = vector
        self.hashed = hashed
        self.policy = PolicyDocument.from_mapping(vector.policy)
        self.states: dict[str, RunState] = {}
        self.gate = VerdictMap()
        self.aborted: dict[str, tuple[str, int]] = {}
        self.classes: dict[tuple[str, object], object] = {}
        self.differences: list[Difference] = []

    def run(self) -> list[Difference]:
        for number, (step, expected) in enumerate(zip(self.vector.steps, self.vector.expect, strict=True), 1):
            for what in self._step(number, step, expected):
                self.differences.append(Difference(self.vector.id, number, what))
        return self.differences

    def _step(self, number: int, step: Json, expected: Json) -> list[str]:
        if step["kind"] == "policy":
            self.policy = PolicyDocument.from_mapping(step["policy"])
            for state in self.states.values():
                for decision in judge_again(state, _PARTITION, self.policy):
                    self.gate.fold(decision.as_read())
            return []
        found: list[str | None] = []
        run_id = run_of(step)
        if step["kind"] == "call":
            found.append(answer_difference(answer_of(self.gate, step, run_id), expected))
            found.append(
                self._class("args", (normalize_tool(step["tool"]), args_hash(step["params"])), expected.get("args_class"))
            )
        effect = self._send(step, number, expected, run_id)
        if step["kind"] == "outcome":
            found.append(self._outcome_difference(step, expected, effect, run_id))
        if step["kind"] == "compaction":
            armed, remaining = guard_status(self.states[run_id], self.policy)
            if (armed, remaining) != (expected["action"] == "armed", expected.get("remaining", 0)):
                found.append(f"guard: expected {expected}, got armed={armed} remaining={remaining}")
        return [what for what in found if what is not None]

    def _send(self, step: Json, number: int, expected: Json, run_id: str) -> Effect:
        blocked = expected["action"] == "block"
        _, wire = event_of(step, number, blocked=blocked, hashed=self.hashed, run_id=run_id, agent_id=self.vector.agent_id)
        event, data = parse_event(wire, key=run_id.encode(), max_bytes=_NO_LIMIT)
        offset = number if not isinstance(data, CompactionCompleted) else number + _NO_LIMIT
        facts = facts_of(event, data, partition=_PARTITION, offset=offset, timestamp=0)
        applied = apply(self.states.setdefault(run_id, RunState(run_id)), facts, self.policy)
        for decision in applied.decisions:
            self.gate.fold(decision.as_read())
            if decision.action == "abort":
                self.aborted[run_id] = (decision.detector, decision.count)
        return applied.effect

    def _outcome_difference(self, step: Json, expected: Json, effect: Effect, run_id: str) -> str | None:
        abort = self.aborted.pop(run_id, None)
        got: Json = {"action": "abort" if abort else "recorded" if effect == "applied" else "ignored"}
        if abort:
            got["detector"], got["count"] = abort
        wanted = {name: expected[name] for name in ("action", "detector", "count") if name in expected}
        if got != wanted:
            return f"expected {wanted}, got {got}"
        if "guard" in expected:
            armed, remaining = guard_status(self.states[run_id], self.policy)
            if {"armed": armed, "remaining": remaining} != expected["guard"]:
                return f"guard: expected {expected['guard']}, got armed={armed} remaining={remaining}"
        if "result_class" not in expected:
            return None
        fingerprint = outcome_fingerprint(
            step["tool"], step["params"], result=step.get("result", MISSING), error=step.get("error", MISSING)
        )
        if fingerprint.outcome_hash is None or expected["result_class"] is None:
            same = (fingerprint.outcome_hash is None) == (expected["result_class"] is None)
            return None if same else f"outcome hash {fingerprint.outcome_hash}, class {expected['result_class']}"
        return self._class("result", fingerprint.outcome_hash, expected["result_class"])

    def _class(self, kind: str, key: object, number: object) -> str | None:
        if number is None:
            return None
        known = self.classes.setdefault((kind, key), number)
        back = self.classes.setdefault((f"{kind} class", number), key)
        return None if known == number and back == key else f"{kind} class: expected {number}, equal to {known}"
