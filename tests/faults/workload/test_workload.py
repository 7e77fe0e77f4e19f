"""The workload is the same for the same seed, and holds all that it promises."""

from collections import Counter

from schemas.cloudevents import InvalidEventError
from schemas.events import parse_event
from schemas.topics import partition_of
from tests.faults.workload import Input, make_workload


def is_event(record: Input) -> bool:
    try:
        parse_event(record.value, record.headers, key=record.key, max_bytes=1 << 20)
    except InvalidEventError:
        return False
    return True


def test_the_same_seed_makes_the_same_records() -> None:
    first, again, other = (make_workload(seed=seed, runs=30, calls=20, partitions=4) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_it_holds_both_topics_all_partitions_copies_misrouted_runs_and_records_that_are_no_events() -> None:
    made = make_workload(seed=1, runs=60, calls=40, partitions=4)
    events = [record for record in made if is_event(record)]
    assert {record.partition for record in events} == {0, 1, 2, 3}
    assert {record.topic for record in events} == {"calls", "compactions"}
    assert max(Counter(record.value for record in events).values()) > 1
    assert any(record.partition != partition_of((record.key or b"").decode(), 4) for record in events)
    assert 0.01 < (len(made) - len(events)) / len(made) < 0.05


def test_runs_are_side_by_side() -> None:
    """Their events alternate, so that a batch has parts of many runs."""
    keys = [record.key for record in make_workload(seed=1, runs=60, calls=40, partitions=4)]
    assert len(set(keys[1000:1100])) > 20
