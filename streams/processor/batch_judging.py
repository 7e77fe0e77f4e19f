"""Judges the records of a batch: the worker's inner loop, without effects.

Compiled where a C compiler is: `docs/design.md`, "The engine is compiled".
"""

from collections.abc import Callable, Iterable
from typing import final

from aiokafka import TopicPartition

from schemas.cloudevents import InvalidEventError
from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection.engine import apply, guard_status
from streams.detection.facts import RunPartition
from streams.detection.run_state import RunState
from streams.processor.intake import read_at
from streams.processor.misrouted import destination
from streams.transport import BareRecord, DeliveredRecord, delivered


@final
class Judged:
    """What the records of a batch bring.

    `effects` counts what became of the events. `refused` are the records that are no events, `misrouted` those of other
    partitions, by partition. `armed` are the runs that a compaction put under guard, with the outcomes that it will look at.
    `latest` is the latest time of an event, `timestamp` that of the last record, both in milliseconds; the latter is None when
    there was no record. `records` counts them.
    """

    __slots__ = ("armed", "decisions", "effects", "latest", "misrouted", "records", "refused", "timestamp")

    def __init__(self) -> None:
        self.decisions: list[MadeDecision] = []
        self.effects: dict[str, int] = {}
        self.refused: list[tuple[DeliveredRecord, InvalidEventError]] = []
        self.misrouted: dict[int, list[DeliveredRecord]] = {}
        self.armed: list[tuple[DeliveredRecord, RunState, int]] = []
        self.latest = 0
        self.timestamp: int | None = None
        self.records = 0


def judge_records(
    records: Iterable[BareRecord],
    *,
    topic: str,
    home: RunPartition,
    partitions: int,
    policy: PolicyDocument,
    settings: Settings,
    run_ttl_ms: int,
    decoded: dict[str, RunState],
    decode: Callable[[str], RunState],
    touched: set[str],
) -> Judged:
    """Apply the events of a batch of a topic to their runs, in place.

    `decoded` are states at hand, all of runs of this partition; `decode` gives (and keeps) another one; `touched` takes the runs
    whose state changed.
    """
    judged = Judged()
    effects = judged.effects
    place = TopicPartition(topic, home.number)
    number = 0
    for record in records:
        number += 1
        try:
            run_id, facts = read_at(home, topic, record, settings=settings)
            state = decoded.get(run_id)
            elsewhere = destination(run_id, record, partition=home.number, partitions=partitions) if state is None else None
        except InvalidEventError as error:
            judged.refused.append((delivered(place, record), error))
            continue
        if elsewhere is not None:
            judged.misrouted.setdefault(elsewhere, []).append(delivered(place, record))
            continue
        if state is None:
            state = decode(run_id)
        applied = apply(state, facts, policy, run_ttl_ms=run_ttl_ms)
        effect = applied.effect
        effects[effect] = effects.get(effect, 0) + 1
        if effect != "redelivered":
            touched.add(run_id)
        if facts.time > judged.latest:
            judged.latest = facts.time
        if applied.decisions:
            judged.decisions.extend(applied.decisions)
        if facts.arms and (effect == "applied" or effect == "late_compaction"):
            armed, attempts = guard_status(state, policy)
            if armed:
                judged.armed.append((delivered(place, record), state, attempts))
    if number:
        judged.timestamp = record.timestamp
    judged.records = number
    return judged
