"""Membership is certain only for a while after a heartbeat that was answered."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import errors
from aiokafka.protocol.group import HeartbeatRequest, LeaveGroupRequest, SyncGroupRequest
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.lease import Lease, now, watch


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    return Lease(session_timeout=10.0, clock=clock)


class Coordinator:
    """Answers each request with the error code given, after some seconds on the clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.error_code = 0
        self.takes = 0.0

    async def _send_req(self, request: Any) -> Any:
        self.clock.time += self.takes
        if self.error_code is None:
            raise errors.RequestTimedOutError
        return SimpleNamespace(error_code=self.error_code)


@pytest.fixture
def coordinator(clock: Clock, lease: Lease) -> Coordinator:
    made = Coordinator(clock)
    watch(made, lease, clock)
    return made


HEARTBEAT = HeartbeatRequest("group", 1, "member")
SYNC = SyncGroupRequest("group", 1, "member", None, [])


def test_is_not_held_at_first(lease: Lease) -> None:
    assert not lease.held


def test_is_shorter_than_the_session(lease: Lease, clock: Clock) -> None:
    lease.renew(clock.time)
    clock.time += 7.9
    assert lease.held
    clock.time += 0.2
    assert not lease.held
    assert lease.remaining == pytest.approx(-0.1)


def test_an_old_answer_does_not_shorten_it(lease: Lease, clock: Clock) -> None:
    lease.renew(clock.time)
    lease.renew(clock.time - 5)
    assert lease.remaining == pytest.approx(8.0)


@pytest.mark.parametrize("request_", [HEARTBEAT, SYNC], ids=["heartbeat", "sync"])
async def test_counts_from_the_sending(request_: Any, lease: Lease, clock: Clock, coordinator: Coordinator) -> None:
    """An answer that comes after a pause of seven seconds leaves one."""
    coordinator.takes = 7.0
    await coordinator._send_req(request_)
    assert lease.remaining == pytest.approx(1.0)


@pytest.mark.parametrize("error", [errors.UnknownMemberIdError, errors.IllegalGenerationError])
async def test_ends_at_once_when_the_coordinator_says_so(
    error: Any, lease: Lease, clock: Clock, coordinator: Coordinator
) -> None:
    lease.renew(clock.time)
    coordinator.error_code = error.errno
    await coordinator._send_req(HEARTBEAT)
    assert not lease.held


@pytest.mark.parametrize("error", [errors.RebalanceInProgressError, errors.GroupCoordinatorNotAvailableError])
async def test_other_answers_change_nothing(error: Any, lease: Lease, clock: Clock, coordinator: Coordinator) -> None:
    lease.renew(clock.time)
    clock.time += 3
    coordinator.error_code = error.errno
    await coordinator._send_req(HEARTBEAT)
    assert lease.remaining == pytest.approx(5.0)


async def test_other_requests_change_nothing(lease: Lease, coordinator: Coordinator) -> None:
    await coordinator._send_req(LeaveGroupRequest("group", "member"))
    assert not lease.held


async def test_errors_pass(coordinator: Coordinator) -> None:
    coordinator.error_code = None  # type: ignore[assignment]  # no answer at all
    with pytest.raises(errors.RequestTimedOutError):
        await coordinator._send_req(HEARTBEAT)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20), st.booleans())))
def test_never_outlives_the_session_that_the_coordinator_counts(beats: list[tuple[float, float, bool]]) -> None:
    """The coordinator counts from when it received a heartbeat, which is between sending and answer."""
    clock = Clock()
    lease = Lease(session_timeout=10.0, clock=clock)
    expires = float("-inf")
    for wait, travel, answered in beats:
        clock.time += wait
        assert not lease.held or clock.time < expires
        sent = clock.time
        received = sent + travel / 2
        expires = max(expires, received + 10.0)
        clock.time += travel
        if answered:
            lease.renew(sent)
        assert not lease.held or clock.time < expires


def test_the_real_clock_goes_on() -> None:
    assert now() <= now()
