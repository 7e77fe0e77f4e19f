"""A lease on partitions is not held before they are taken up anew, whatever heartbeats are answered."""

import pytest

from streams.transport.partition_lease import PartitionLease


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> PartitionLease:
    """One that is held: a member, whose partitions are taken up."""
    made = PartitionLease(session_timeout=10.0, clock=clock)
    made.renew(clock.time)
    made.take_up(made.term)
    return made


def test_a_member_does_not_hold_what_it_has_not_taken_up(clock: Clock) -> None:
    lease = PartitionLease(session_timeout=10.0, clock=clock)
    lease.renew(clock.time)
    assert lease.is_member
    assert not lease.held
    lease.take_up(lease.term)
    assert lease.held


def test_heartbeats_in_time_keep_it(lease: PartitionLease, clock: Clock) -> None:
    for _ in range(5):
        clock.time += 7
        lease.renew(clock.time)
    assert lease.held


def test_a_membership_that_was_over_is_another_term(lease: PartitionLease, clock: Clock) -> None:
    clock.time += 9
    assert not lease.held
    lease.renew(clock.time)
    assert lease.is_member
    assert not lease.held
    lease.take_up(lease.term)
    assert lease.held


def test_being_expelled_and_let_in_again_is_another_term(lease: PartitionLease, clock: Clock) -> None:
    lease.end()
    lease.renew(clock.time)
    assert not lease.held


def test_giving_partitions_back_is_another_term(lease: PartitionLease, clock: Clock) -> None:
    lease.end_term()
    lease.renew(clock.time)
    assert lease.is_member
    assert not lease.held


def test_taking_up_a_term_that_has_ended_meanwhile_is_of_no_use(lease: PartitionLease) -> None:
    lease.end_term()
    term = lease.term
    lease.end_term()
    lease.take_up(term)
    assert not lease.held
