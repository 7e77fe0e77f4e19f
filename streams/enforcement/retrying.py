"""Offers a decision until the receiver has it, refuses it, or the time for it is over."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError, Receiver

#: Seconds between attempts: a random part of 1, 2, 4, ... up to LONGEST (full jitter, so that decisions that failed together do
#: not come back together), and never less than SHORTEST.
SHORTEST = 0.25
LONGEST = 30.0

#: The longest wait in seconds that a receiver can ask for with Retry-After.
LONGEST_ASKED = 120.0

_backoff = wait_random_exponential(multiplier=1, max=LONGEST, min=SHORTEST)


@dataclass(slots=True)
class Attempts:
    """The attempts for one decision: how many there were, and until when (`time.monotonic()`) another may begin."""

    deadline: float
    made: int = 0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self.deadline - self.clock(), 0.0)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.left == 0.0


async def hand_over_with_retries(
    receiver: Receiver,
    envelope: DecisionEnvelope,
    attempts: Attempts,
    *,
    turn: Callable[[], AbstractAsyncContextManager[object]],
) -> None:
    """Offer the decision, at least once, each time within `turn()`; the last time at the deadline.

    Raises `RefusedError` at once, and the last `NoAnswerError` when the time is over, or would be before the receiver wants to
    hear of it again.
    """

    def asked(state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome is not None else None
        return min(failure.retry_after, LONGEST_ASKED) if isinstance(failure, NoAnswerError) else 0.0

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(NoAnswerError),
        wait=lambda state: max(min(_backoff(state), attempts.left), asked(state)),
        stop=lambda state: attempts.late or asked(state) > attempts.left,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            async with turn():
                attempts.made += 1
                await receiver.hand_over(envelope)
