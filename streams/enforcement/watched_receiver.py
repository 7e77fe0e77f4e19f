"""A receiver whose attempts are counted and timed, and whose failures are told in the log, now and then."""

import time

import structlog

from streams.enforcement import metrics
from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NotHandedOverError, Receiver

#: The least number of seconds between two lines about failed attempts.
_LOG_INTERVAL = 30.0

log = structlog.get_logger("loopwarden.enforcement")


class WatchedReceiver:
    """Wraps a receiver and is one."""

    def __init__(self, receiver: Receiver) -> None:
        self.kind = receiver.kind
        self.attempt_timeout = receiver.attempt_timeout
        self._receiver = receiver
        self._failures = 0
        self._logged_at = float("-inf")

    async def hand_over(self, envelope: DecisionEnvelope) -> None:
        """Offer a decision as the receiver inside does."""
        begun = time.perf_counter()
        code = "cut_short"
        try:
            await self._receiver.hand_over(envelope)
            code = "ok"
        except NotHandedOverError as failure:
            code = failure.code
            self._tell(failure)
            raise
        finally:
            metrics.ATTEMPTS.labels(self.kind, code).inc()
            metrics.ATTEMPT_DURATION.labels(self.kind).observe(time.perf_counter() - begun)

    async def close(self) -> None:
        """Close the receiver inside."""
        await self._receiver.close()

    def _tell(self, failure: NotHandedOverError) -> None:
        self._failures += 1
        if time.monotonic() - self._logged_at >= _LOG_INTERVAL:
            log.warning("attempts fail", failed=self._failures, code=failure.code, last=str(failure))
            self._logged_at, self._failures = time.monotonic(), 0
