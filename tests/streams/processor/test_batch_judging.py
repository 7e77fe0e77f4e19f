"""What the records of a batch bring, without a broker."""

import json
from typing import Any

import pytest

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import partition_of
from streams.detection.facts import RunPartition
from streams.detection.run_state import RunState
from streams.processor.batch_judging import Judged, judge_records
from streams.transport import DeliveredRecord

SETTINGS = Settings()
CALLS, COMPACTIONS = SETTINGS.topics.inputs
PARTITIONS = 4
POLICY = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})
RUN = "run-1"
HOME = RunPartition(CALLS, partition_of(RUN, PARTITIONS))
ELSEWHERE = next(f"run-{number}" for number in range(2, 99) if partition_of(f"run-{number}", PARTITIONS) != HOME.number)


def record(kind: str, offset: int, *, run: str = RUN, topic: str = CALLS, **data: Any) -> DeliveredRecord:
    """Make a record of the run's partition; its time is its offset."""
    event = {
        "specversion": "1.0",
        "id": f"{offset}",
        "source": "/t",
        "type": f"dev.loopwarden.{kind}.v1",
        "sequence": f"{offset}",
        "data": {"run_id": run, **data},
    }
    return DeliveredRecord(topic, HOME.number, offset, offset, run.encode(), json.dumps(event).encode(), ())


def call(offset: int, *, run: str = RUN) -> list[DeliveredRecord]:
    """Make the two events of a call that is always the same."""
    data = {"tool": "read", "args_hash": "0" * 32, "call_id": f"c{offset}"}
    return [
        record("tool-call.started", offset, run=run, **data),
        record("tool-call.finished", offset + 1, run=run, outcome_hash="1" * 32, **data),
    ]


class Bench:
    """Judges batches and remembers the states."""

    def __init__(self) -> None:
        self.states: dict[str, RunState] = {}
        self.touched: set[str] = set()
        self.asked: list[str] = []

    def decode(self, run_id: str) -> RunState:
        self.asked.append(run_id)
        return self.states.setdefault(run_id, RunState(run_id))

    def judge(self, *records: DeliveredRecord) -> Judged:
        return judge_records(
            records,
            topic=records[0].topic,
            home=HOME,
            partitions=PARTITIONS,
            policy=POLICY,
            settings=SETTINGS,
            run_ttl_ms=1_000_000,
            decoded=self.states,
            decode=self.decode,
            touched=self.touched,
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_events_are_applied_in_order_and_their_decisions_come_in_order(bench: Bench) -> None:
    judged = bench.judge(*(one for number in range(0, 44, 2) for one in call(number)))
    assert judged.effects == {"applied": 44}
    assert [(one.action, one.count) for one in judged.decisions][:2] == [("warn", 10), ("release", 10)]
    assert judged.decisions[-1].action == "block"
    assert judged.latest == 43
    assert bench.touched == {RUN}


def test_a_state_is_asked_for_once(bench: Bench) -> None:
    bench.judge(*call(0), *call(2))
    bench.judge(*call(4))
    assert bench.asked == [RUN]


def test_events_that_come_again_do_not_touch_their_run(bench: Bench) -> None:
    bench.judge(*call(0))
    bench.touched.clear()
    judged = bench.judge(*call(0))
    assert judged.effects == {"redelivered": 2}
    assert not bench.touched


def test_what_is_no_event_is_handed_back_with_the_reason_and_the_rest_is_applied(bench: Bench) -> None:
    bad = DeliveredRecord(CALLS, HOME.number, 7, 7, RUN.encode(), b"{", ())
    judged = bench.judge(*call(0), bad, *call(8))
    assert [(one, error.code) for one, error in judged.refused] == [(bad, "not_json")]
    assert judged.effects == {"applied": 4}


def test_events_of_another_partition_are_handed_back_and_make_no_state(bench: Bench) -> None:
    wrong = call(0, run=ELSEWHERE)
    judged = bench.judge(*wrong)
    assert judged.misrouted == {partition_of(ELSEWHERE, PARTITIONS): wrong}
    assert not bench.states
    assert not judged.effects


def test_a_run_that_a_compaction_puts_under_guard_is_told(bench: Bench) -> None:
    compaction = record("compaction.completed", 5, topic=COMPACTIONS, will_retry=True)
    idle = record("compaction.completed", 6, topic=COMPACTIONS, will_retry=False)
    judged = bench.judge(compaction, idle)
    assert [(one, state.run_id, attempts) for one, state, attempts in judged.armed] == [(compaction, RUN, 3)]
    assert judged.effects == {"applied": 1, "ignored": 1}
