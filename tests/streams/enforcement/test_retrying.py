"""When a decision is offered again."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from schemas.decisions import Decision, Origin
from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError, RefusedError
from streams.enforcement.retrying import Attempts, hand_over_with_retries

Make = Callable[..., Decision]


class Scripted:
    """Fails with one failure after another, then takes the decision."""

    kind = "scripted"
    attempt_timeout = 1.0

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.times: list[float] = []

    async def hand_over(self, envelope: DecisionEnvelope) -> None:
        self.times.append(time.monotonic())
        if self.failures:
            raise self.failures.pop(0)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def at_once() -> AsyncIterator[None]:
    yield


@pytest.fixture
def envelope(decision_factory: Make) -> DecisionEnvelope:
    return DecisionEnvelope(Origin(topic="t", partition=0, offset=0), decision_factory(), b"{}")


def seconds_from_now(seconds: float) -> Attempts:
    return Attempts(deadline=time.monotonic() + seconds)


async def test_failures_are_followed_by_further_attempts_until_one_succeeds(envelope: DecisionEnvelope) -> None:
    receiver, attempts = (
        Scripted(NoAnswerError("http_500", "HTTP status 500"), NoAnswerError("timeout", "no")),
        seconds_from_now(60),
    )
    await hand_over_with_retries(receiver, envelope, attempts, turn=at_once)
    assert attempts.made == len(receiver.times) == 3
    assert all(later - sooner >= 0.25 for sooner, later in zip(receiver.times, receiver.times[1:], strict=False))


async def test_a_refusal_is_final(envelope: DecisionEnvelope) -> None:
    receiver, attempts = Scripted(RefusedError("http_404", "HTTP status 404")), seconds_from_now(60)
    with pytest.raises(RefusedError):
        await hand_over_with_retries(receiver, envelope, attempts, turn=at_once)
    assert attempts.made == 1


async def test_the_wait_is_at_least_what_the_receiver_asks_for(envelope: DecisionEnvelope) -> None:
    receiver = Scripted(NoAnswerError("http_429", "HTTP status 429", retry_after=1.7))
    await hand_over_with_retries(receiver, envelope, seconds_from_now(60), turn=at_once)
    assert receiver.times[1] - receiver.times[0] >= 1.7


async def test_a_receiver_that_wants_to_rest_beyond_the_deadline_is_left_alone(envelope: DecisionEnvelope) -> None:
    receiver, attempts = Scripted(NoAnswerError("http_503", "HTTP status 503", retry_after=3600)), seconds_from_now(30)
    begun = time.monotonic()
    with pytest.raises(NoAnswerError, match="503"):
        await hand_over_with_retries(receiver, envelope, attempts, turn=at_once)
    assert time.monotonic() - begun < 10
    assert attempts.made == 1


async def test_the_last_attempt_is_at_the_deadline(envelope: DecisionEnvelope) -> None:
    receiver, attempts = Scripted(*(NoAnswerError("http_503", "HTTP status 503") for _ in range(99))), seconds_from_now(3)
    with pytest.raises(NoAnswerError, match="503"):
        await hand_over_with_retries(receiver, envelope, attempts, turn=at_once)
    assert attempts.late
    assert -0.01 <= receiver.times[-1] - attempts.deadline < 1


async def test_there_is_one_attempt_even_when_the_time_is_over(envelope: DecisionEnvelope) -> None:
    receiver = Scripted()
    await hand_over_with_retries(receiver, envelope, seconds_from_now(-1), turn=at_once)
    assert len(receiver.times) == 1


async def test_other_errors_are_not_the_receivers_and_end_it(envelope: DecisionEnvelope) -> None:
    with pytest.raises(ZeroDivisionError):
        await hand_over_with_retries(Scripted(ZeroDivisionError()), envelope, seconds_from_now(60), turn=at_once)
