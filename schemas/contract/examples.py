"""An example or more of every message: one short run of three equal calls, as a gateway and a worker would write it."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final, Literal

from schemas import json_text
from schemas.cloudevents import structured
from schemas.decisions import AsOf, Decision, EvidenceCall, Origin, Target, decision_id
from schemas.deliveries import Delivery
from schemas.events import CompactionCompleted, RunEnded, RunEvent, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.fingerprints import args_hash, outcome_fingerprint
from schemas.policy import PolicyDocument
from schemas.policy_applied import PolicyApplied
from schemas.policy_records import POLICY_TYPE

#: 30 November 2026, 12:00 UTC, in microseconds: the sequences of our publisher come from such a clock.
_START: Final = 1_796_040_000_000_000
_RUN: Final = "run-7f3a"
_OF_RUN: Final = {"run_id": _RUN, "session_id": "session-12", "agent_id": "researcher"}
_TOPIC: Final = "agent.tool-calls.v1"
_PARTITION: Final = 3
_PARAMS: Final = {"command": "npm test"}
_RESULT: Final = {
    "content": [{"type": "text", "text": "1 failing"}],
    "details": {"status": "failed", "exitCode": 1, "aggregated": "1 failing"},
}
_HASHED_CALL: Final = {**_OF_RUN, "call_id": "call-1", "tool": "exec", "args_hash": args_hash(_PARAMS)}
_POLICY: Final = PolicyDocument.from_mapping(
    {
        "tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}},
        "loopwarden": {"shadow": ["ping_pong"]},
        "agents": {"list": [{"id": "poller", "tools": {"loopDetection": {"detectors": {"knownPollNoProgress": False}}}}]},
    }
)
_ENGINE: Final = "1"
_SAID: Final = {
    "block": "exec has been called 3 times with the same arguments and the same outcome, so this call is refused: "
    "try something else, or report that it does not work.",
    "release": "What was said about exec at a count of 3 no longer holds.",
}


def _events() -> Iterator[tuple[type[RunEvent], str, dict[str, Any]]]:
    yield ToolCallStarted, "hashed", _HASHED_CALL
    yield ToolCallStarted, "raw", {**_OF_RUN, "call_id": "call-1", "tool": "exec", "params": _PARAMS}
    outcome = outcome_fingerprint("exec", _PARAMS, result=_RESULT)
    yield ToolCallFinished, "hashed", {**_HASHED_CALL, "outcome_hash": outcome.outcome_hash, "is_error": outcome.is_error}
    yield ToolCallFinished, "raw", {**_OF_RUN, "call_id": "call-1", "tool": "exec", "params": _PARAMS, "result": _RESULT}
    missing = outcome_fingerprint("grep", {"q": "todo"}, error="Unknown tool: grep")
    yield (
        ToolCallFinished,
        "missingTool",
        {
            **_OF_RUN,
            "call_id": "call-2",
            "tool": "grep",
            "args_hash": args_hash({"q": "todo"}),
            "outcome_hash": missing.outcome_hash,
            "unknown_tool": missing.unknown_tool,
            "is_error": missing.is_error,
        },
    )
    yield ToolCallBlocked, "loop", {**_HASHED_CALL, "call_id": "call-4", "decision_id": _decision().decision_id, "reason": "loop"}
    yield CompactionCompleted, "retried", {**_OF_RUN, "will_retry": True, "tokens_before": 181_000, "tokens_after": 12_000}
    yield RunEnded, "ended", {**_OF_RUN, "status": "done"}


def _decision(action: Literal["block", "release"] = "block") -> Decision:
    target = Target(scope="call", tool="exec", args_hash=args_hash(_PARAMS))
    step = 3_000_000
    call = 3 if action == "block" else 4
    last = _START + (call - 1) * step + step // 2
    as_of = AsOf(
        topic=_TOPIC, partition=_PARTITION, offset=1039 + 2 * call, sequence=last, call_id=f"call-{call}", time=last // 1000
    )
    return Decision(
        decision_id=decision_id(
            policy_version=_POLICY.version,
            run_id=_RUN,
            action=action,
            target=target,
            detector="generic_repeat",
            count=3,
            as_of=as_of,
        ),
        **_OF_RUN,
        action=action,
        level="critical",
        detector="generic_repeat",
        target=target,
        count=3,
        reason="changed" if action == "release" else None,
        message=_SAID[action],
        warning_key=f"call:exec:{target.args_hash}:370cd0b533050cbd",
        policy_version=_POLICY.version,
        engine_version=_ENGINE,
        since=Origin(topic=_TOPIC, partition=_PARTITION, offset=1040),
        as_of=as_of,
        evidence=tuple(EvidenceCall(sequence=_START + n * step, call_id=f"call-{n + 1}") for n in (2, 1, 0)),
        decided_at=last // 1000 + 42,
    )


def _all() -> Iterator[tuple[str, str, bytes]]:
    for (model, name, data), number in zip(_events(), count(_START, 1_500_000), strict=False):
        value = structured(
            event_type=model.event_type(),
            source="/gateways/eu-1",
            event_id=f"eu-1:{number}",
            run_id=_RUN,
            data=data,
            time=number // 1000,
            sequence=number,
        )
        yield model.event_name, name, value
    for action in ("block", "release"):
        yield Decision.event_name, action, _decision(action).to_record(source="loopwarden/loopwarden")
    decision = _decision()
    delivery = Delivery(
        decision_id=decision.decision_id,
        run_id=_RUN,
        group="webhook",
        outcome="delivered",
        attempts=1,
        decision=Origin(topic="agent.decisions.v1", partition=_PARTITION, offset=88),
        at=decision.as_of.time + 95,
    )
    yield Delivery.event_name, "delivered", delivery.to_record()
    marker = PolicyApplied(
        policy_version=_POLICY.version,
        policy=_POLICY.to_mapping(),
        partition=_PARTITION,
        tool_calls_offset=1040,
        compactions_offset=12,
        engine_version=_ENGINE,
        applied_at=_START // 1000,
    )
    yield PolicyApplied.event_name, "applied", marker.to_record(source="loopwarden/loopwarden")
    policy = structured(
        event_type=POLICY_TYPE,
        source="/operators",
        event_id="change-41",
        subject="*",
        data=_POLICY.to_mapping(),
        time=_START // 1000,
    )
    yield "policy", "default", policy


def _by_message() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for message, name, value in _all():
        found.setdefault(message, {})[name] = json_text.loads(value)
    return found


#: Name of a message -> name of an example -> the message in structured mode.
EXAMPLES: Final[Mapping[str, Mapping[str, dict[str, Any]]]] = _by_message()
