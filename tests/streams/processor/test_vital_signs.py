"""When a worker is ready, by what is seen of it."""

from dataclasses import replace

import pytest
from faust.types import TP
from structlog.testing import capture_logs

from streams.processor.lag import Lag
from streams.processor.vital_signs import Picture, VitalSigns

CALLS = TP("agent.tool-calls.v1", 3)
WELL = Picture(joined=True, assigned=(3,), taken_over=True, policy_known=True, lags={CALLS: Lag(5, 1.25)})


def faults(picture: Picture) -> str:
    return picture.readiness(60.0).faults


def test_a_worker_that_judges_what_comes_is_ready() -> None:
    health = WELL.readiness(60.0)
    assert health.ok
    assert [check.detail for check in health.checks] == [
        "is not stopping",
        "of the consumer group",
        "partitions 3",
        "is known",
        "at most 1.2 s, bound 60 s",
    ]


def test_a_worker_for_which_no_partition_is_left_is_ready_to_take_over() -> None:
    spare = replace(WELL, assigned=(), lags={})
    assert spare.readiness(60.0).ok
    assert "more workers than partitions" in spare.readiness(60.0).text("readyz", verbose=True)


def test_a_worker_that_has_not_joined_yet_is_not_ready() -> None:
    assert not Picture().readiness(60.0).ok
    assert "recovered: no partitions were assigned yet" in faults(Picture())


@pytest.mark.parametrize(
    ("picture", "fault"),
    [
        (replace(WELL, joined=False), "member: no heartbeat was answered in time"),
        (replace(WELL, stopping=True), "running: is stopping"),
        (replace(WELL, policy_known=False), "policy: the policies topic is not read yet"),
        (replace(WELL, taken_over=False, recovering=1234), "recovered: partitions 3: 1234 changelog records to read"),
        (replace(WELL, lags={CALLS: None}), "lag: agent.tool-calls.v1[3] is not known yet; bound 60 s"),
        (replace(WELL, lags={CALLS: Lag(9, 60.1)}), "lag: agent.tool-calls.v1[3] 60.1 s (9 records); bound 60 s"),
        (
            replace(WELL, lags={CALLS: Lag(9, 0.0, certain=False)}),
            "lag: agent.tool-calls.v1[3] has 9 records of unknown age; bound 60 s",
        ),
    ],
)
def test_what_keeps_a_worker_from_being_ready_is_told(picture: Picture, fault: str) -> None:
    assert fault in faults(picture)


def test_the_bound_of_the_lag_can_be_set() -> None:
    assert replace(WELL, lags={CALLS: Lag(9, 300.0)}).readiness(600.0).ok


class Said:
    """Vital signs whose picture is given, and what the log is told of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.signs = VitalSigns(max_lag=60.0, clock=lambda: self.now)

    def after(self, seconds: float, picture: Picture) -> list[str]:
        """See a picture from now on for so many seconds; return the events that are logged."""
        self.signs.picture = picture
        with capture_logs() as lines:
            for _ in range(int(seconds)):
                self.signs._say()
                self.now += 1.0
        return [f"{line['log_level']}: {line['event']}" for line in lines]


READY, UNREADY = "info: worker is ready", "warning: worker is not ready"


def test_the_log_tells_once_that_a_worker_is_ready_and_that_it_no_longer_is() -> None:
    said = Said()
    assert said.after(5, Picture()) == []
    assert said.after(60, WELL) == [READY]
    assert said.after(60, replace(WELL, joined=False)) == [UNREADY]
    assert said.after(5, WELL) == [READY]


def test_a_rebalance_is_no_line() -> None:
    said = Said()
    said.after(5, WELL)
    assert said.after(9, replace(WELL, taken_over=False)) == []
    assert said.after(9, WELL) == []


def test_a_worker_that_never_becomes_ready_says_so_and_says_when_the_reason_changes() -> None:
    said = Said()
    assert said.after(60, Picture()) == [UNREADY]
    assert said.after(60, replace(WELL, lags={CALLS: Lag(9, 90.0)})) == [UNREADY]


def test_the_lag_going_up_is_not_another_reason() -> None:
    said = Said()
    assert said.after(20, replace(WELL, lags={CALLS: Lag(9, 90.0)})) == [UNREADY]
    assert said.after(20, replace(WELL, lags={CALLS: Lag(99, 190.0)})) == []


def test_a_worker_that_stops_is_not_unready() -> None:
    said = Said()
    said.after(5, WELL)
    assert said.after(60, replace(WELL, stopping=True)) == []
