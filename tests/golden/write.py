"""Writes a golden copy: what this release's code puts into topics and changelog, for later releases to read.

    python -m tests.golden.write tests/golden/NAME.json

Done once for each release and each version of a stored form; the files are never written again. A copy holds the input records
of one partition in their order (some runs of every kind), the policy, the stored states of all runs after some of them, and
the decisions that each record brought. Whoever reads a stored state and goes on with the records after it must come to the same
decisions. The other records of the topics and of the changelog are there too, since the release that brought them.
"""

import base64
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from schemas import cloudevents
from schemas.events import (
    CompactionCompleted,
    RunEnded,
    RunEvent,
    ToolCallBlocked,
    ToolCallFinished,
    ToolCallStarted,
    parse_event,
)
from schemas.fingerprints import args_hash, outcome_fingerprint
from schemas.policy import PolicyDocument
from schemas.topics import Topics
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.facts import RunPartition, facts_of
from streams.detection.run_state import RunState

TOPICS = Topics()
HOME = RunPartition(TOPICS.tool_calls, 0)
SOURCE = "/golden"
POLICY = {
    "tools": {"loopDetection": {"enabled": True, "unknownToolThreshold": 6}},
    "loopwarden": {"shadow": ["ping_pong"]},
    "agents": {
        "list": [
            {"id": "quick", "tools": {"loopDetection": {"warningThreshold": 3, "criticalThreshold": 5}}},
            {"id": "long", "tools": {"loopDetection": {"historySize": 60}}},
        ]
    },
}
#: After these shares of the records the states are kept.
CUTS = (0.2, 0.33, 0.565, 0.7, 0.97)
_START = 1_796_040_000_000_000

#: Marks a compaction whose sequence is so many records ahead.
AHEAD = 100

Event = tuple[type[RunEvent], dict[str, Any]]


def _call(tool: str, params: Any, result: Any, **more: Any) -> Iterator[Event]:
    yield ToolCallStarted, {"tool": tool, "params": params, **more}
    yield ToolCallFinished, {"tool": tool, "params": params, "result": result, **more}


def _hashed(tool: str, params: Any, *, error: str | None = None, result: Any = None, **more: Any) -> Iterator[Event]:
    outcome = outcome_fingerprint(tool, params, **({"result": result} if error is None else {"error": error}))
    call = {"tool": tool, "args_hash": args_hash(params), **more}
    yield ToolCallStarted, call
    facts = {"outcome_hash": outcome.outcome_hash, "unknown_tool": outcome.unknown_tool, "is_error": outcome.is_error}
    yield ToolCallFinished, {**call, **{name: value for name, value in facts.items() if value is not None}}


def _loop() -> Iterator[Event]:
    for number in range(26):
        yield from _call(
            "exec", {"command": "npm test"}, {"details": {"status": "failed", "exitCode": 1}}, call_id=f"call_{number:04d}"
        )


def _ping_pong() -> Iterator[Event]:
    for number in range(24):
        yield from _call("read" if number % 2 else "write", {"path": f"{number % 2}.txt"}, "same", call_id=f"toolu_{number}")


def _missing() -> Iterator[Event]:
    for number in range(9):
        yield from _hashed("grep", {"q": number}, error="Unknown tool: grep", call_id=f"a/b c:{number}é")


def _guarded() -> Iterator[Event]:
    yield from _call("read", {"path": "a"}, "x")
    yield CompactionCompleted, {"will_retry": True, "tokens_before": 1000}
    for _ in range(4):
        yield from _hashed("read", {"path": "b"}, result="the same")
    yield CompactionCompleted, {"will_retry": False}


def _waiting() -> Iterator[Event]:
    for number in range(30):
        if number % 9 == 4:
            # Read before tool calls that come before it: it waits in the guard.
            yield CompactionCompleted, {"will_retry": True, "tokens_after": AHEAD}
        yield from _hashed("fetch", {"page": number // 2}, result=number // 4, call_id=f"{number}")


def _polls() -> Iterator[Event]:
    for _ in range(22):
        yield from _hashed("process", {"action": "poll", "id": 7}, result={"details": {"status": "running"}}, poll=True)


def _twice() -> Iterator[Event]:
    for _ in range(2):
        for number in range(6):
            yield from _call("list", {"n": 1}, "same", call_id=f"x{number}")
        yield ToolCallBlocked, {"tool": "list", "params": {"n": 1}, "reason": "loop"}
        yield RunEnded, {"status": "done"}
    yield from _call("list", {"n": 1}, "same")


def _ended() -> Iterator[Event]:
    yield from _call("read", {"path": "a"}, "x")
    yield RunEnded, {}


def _varied() -> Iterator[Event]:
    for number in range(48):
        yield from _call(
            f"tool{number % 7}", {"n": number, "x": [number / 8, None, "é"]}, {"content": [{"type": "text", "text": str(number)}]}
        )


def _long() -> Iterator[Event]:
    for number in range(110):
        same = number % 5 == 2
        yield from _hashed(
            "search", {"q": 0 if same else number}, result=number // 60 if same else number, call_id=f"srch-{number}"
        )


#: Run id -> agent, whether its events have sequences, and the events.
RUNS = {
    "loop": (None, True, _loop()),
    "ping-pong": ("pair", True, _ping_pong()),
    "missing": (None, True, _missing()),
    "guarded": (None, True, _guarded()),
    "waiting": (None, True, _waiting()),
    "session:12": (None, True, _polls()),
    "twice": ("quick", True, _twice()),
    "unnumbered é": ("quick", False, _loop()),
    "ended": (None, True, _ended()),
    "varied": (None, True, _varied()),
    "long": ("long", True, _long()),
}


def records() -> Iterator[dict[str, str]]:
    """Yield the input records of all runs in turn: topic, key and value as text."""
    number = 0
    for turn in zip_longest(*(events for _, _, events in RUNS.values())):
        for (run_id, (agent, sequenced, _)), event in zip(RUNS.items(), turn, strict=True):
            if event is None:
                continue
            model, data = event
            number += 1
            value = cloudevents.structured(
                event_type=model.event_type(),
                source=SOURCE,
                event_id=str(number),
                run_id=run_id,
                data={"run_id": run_id, **({"agent_id": agent} if agent else {}), **data},
                time=_START // 1000 + 250 * number,
                sequence=_START + 250_000 * (number + (AHEAD if data.get("tokens_after") == AHEAD else 0)) if sequenced else None,
            )
            topic = TOPICS.compactions if model is CompactionCompleted else TOPICS.tool_calls
            yield {"topic": topic, "key": run_id, "value": value.decode()}


def golden_copy() -> dict[str, Any]:
    """Play the records through the engine and keep what it stores and says."""
    policy = PolicyDocument.from_mapping(POLICY)
    states: dict[str, RunState] = {}
    offsets: Counter[str] = Counter()
    given = list(records())
    cuts = [round(len(given) * share) for share in CUTS]
    stored: dict[str, dict[str, str]] = {}
    decisions: list[list[str]] = []
    for position, record in enumerate(given):
        if position in cuts:
            stored[str(position)] = {
                run_id: base64.b64encode(state_codec.encode(state)).decode() for run_id, state in states.items()
            }
        event, data = parse_event(record["value"].encode(), key=record["key"].encode(), max_bytes=1 << 20)
        facts = facts_of(event, data, partition=HOME, offset=offsets[record["topic"]], timestamp=0)
        offsets[record["topic"]] += 1
        state = states.setdefault(record["key"], RunState(record["key"]))
        made = apply(state, facts, policy).decisions
        decisions.append([decision.to_record(source=SOURCE).decode() for decision in made])
    return {
        "about": "Written by tests/golden/write.py with the code of the release; not to be changed.",
        "codec_version": state_codec.CODEC_VERSION,
        "policy": POLICY,
        "policy_version": policy.version,
        "records": given,
        "decisions": decisions,
        "states": stored,
        **_other_records(policy, tool_calls=offsets[TOPICS.tool_calls], compactions=offsets[TOPICS.compactions]),
    }


def _other_records(policy: PolicyDocument, *, tool_calls: int, compactions: int) -> dict[str, Any]:
    """Return a policy record, a marker and the changelog's record of a policy, as far as the code knows them."""
    if importlib.util.find_spec("schemas.policy_applied") is None:
        return {}
    applied = importlib.import_module("schemas.policy_applied")
    policies = importlib.import_module("schemas.policy_records")
    partition_policy = importlib.import_module("streams.processor.partition_policy")
    marker = applied.PolicyApplied(
        policy_version=policy.version,
        policy=policy.to_mapping(),
        partition=0,
        tool_calls_offset=tool_calls,
        compactions_offset=compactions,
        engine_version="1",
        applied_at=_START // 1000,
    )
    kept = partition_policy.PartitionPolicy(
        policy=policy.to_mapping(), tool_calls_offset=tool_calls, compactions_offset=compactions, announced=True, judged=True
    )
    return {
        "policy_record": policies.policy_record("*", policy, source=SOURCE, time=_START // 1000).decode(),
        "marker": marker.to_record(source=SOURCE).decode(),
        "partition_policy": base64.b64encode(partition_policy.encode(kept)).decode(),
    }


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if target.exists():
        sys.exit(f"{target}: is there already; a golden copy is written once")
    target.write_text(json.dumps(golden_copy(), ensure_ascii=True, indent=0) + "\n")
