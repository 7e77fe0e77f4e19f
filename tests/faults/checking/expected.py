"""What must come out: the engine alone, over the records as they lie on the input topics."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.structs import ConsumerRecord

from schemas.cloudevents import InvalidEventError
from schemas.decisions import Decision
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.run_state import RunState
from streams.gateway.verdict_map import VerdictMap
from streams.processor.intake import read_record
from streams.processor.misrouted import destination
from tests.faults.checking.outcome import Outcome


def expect(inputs: dict[str, list[list[ConsumerRecord]]], *, settings: Settings, policy: PolicyDocument) -> Outcome:
    """Judge the records of both input topics partition by partition: each topic in its order, the two merged by timestamps.

    Timestamps alone would not do: a producer that has lost an answer writes a batch twice.
    """
    outcome = Outcome()
    partitions = len(inputs[settings.topics.tool_calls])
    for number in range(partitions):
        slices = [inputs[topic][number] for topic in settings.topics.inputs]
        merged = heapq.merge(*slices, key=lambda record: record.timestamp)
        _judge(number, merged, outcome, partitions=partitions, settings=settings, policy=policy)
        for topic, records in zip(settings.topics.inputs, slices, strict=True):
            outcome.offsets[topic, number] = records[-1].offset + 1 if records else 0
    return outcome


def _judge(
    number: int,
    records: Iterable[ConsumerRecord],
    outcome: Outcome,
    *,
    partitions: int,
    settings: Settings,
    policy: PolicyDocument,
) -> None:
    states: dict[str, RunState] = {}
    decisions: list[Decision] = []
    for record in records:
        try:
            run_id, facts = read_record(record, settings=settings)
            elsewhere = destination(run_id, record, partition=record.partition, partitions=partitions)
        except InvalidEventError:
            outcome.dead_letters[record.topic, number, record.offset] = (record.key, record.value, tuple(record.headers))
            continue
        if elsewhere is None:  # what is sent on lies in its right partition too
            state = states.setdefault(run_id, RunState(run_id))
            applied = apply(state, facts, policy, run_ttl_ms=int(settings.run_ttl * 1000))
            decisions += [decision.as_read() for decision in applied.decisions]
    for decision in decisions:
        outcome.decisions[decision.decision_id] = payload(decision)
    outcome.standing.update(standing(decisions))
    outcome.written += len(decisions)
    for run_id, state in states.items():
        if state.ended:
            outcome.ended.add((number, run_id))
        else:
            outcome.states[number, run_id] = state_codec.encode(state)


def payload(decision: Decision) -> dict[str, Any]:
    """Return what two computations of one decision share."""
    return decision.model_dump(mode="json", exclude={"decided_at"})


def standing(decisions: Sequence[Decision]) -> dict[tuple[str, str | None, str | None], tuple[str, str, int]]:
    """Fold the decisions of a partition, in order, to what stands at the end."""
    folded = VerdictMap()
    targets: dict[tuple[str, str | None, str | None], None] = {}
    for decision in decisions:
        folded.fold(decision)
        targets[decision.run_id, decision.target.tool, decision.target.args_hash] = None
    found: dict[tuple[str, str | None, str | None], tuple[str, str, int]] = {}
    for run_id, tool, args_hash in targets:
        verdict = folded.lookup(run_id, tool or "", args_hash or "")
        if verdict is not None:
            found[run_id, tool, args_hash] = (verdict.action, verdict.detector, verdict.count)
    return found
