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
    def late(self) -> bool:
        """Whether the time is over."""
        return self.clock() >= self.deadline


async def hand_over_with_retries(
    receiver: Receiver,
    envelope: DecisionEnvelope,
    attempts: Attempts,
    *,
    turn: Callable[[], AbstractAsyncContextManager[object]],
) -> None:
    """Offer the decision, at least once, each time within `turn()`.

    Raises `RefusedError` at once, and the last `NoAnswerError` when the next attempt would begin after the deadline.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(NoAnswerError),
        wait=_wait,
        stop=lambda state: attempts.clock() + state.upcoming_sleep >= attempts.deadline,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            async with turn():
                attempts.made += 1
                await receiver.hand_over(envelope)


def _wait(state: RetryCallState) -> float:
    failure = state.outcome.exception() if state.outcome is not None else None
    asked = failure.retry_after if isinstance(failure, NoAnswerError) else 0.0
    return max(_backoff(state), min(asked, LONGEST_ASKED))
