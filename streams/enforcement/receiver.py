"""What takes decisions, and the two ways in which it may not."""

from typing import Protocol

from streams.enforcement.envelope import DecisionEnvelope


class NotHandedOverError(Exception):
    """A receiver did not take a decision.

    `code` is short and stable (`http_503`, `exit_1`, `timeout`), the message one line without anything secret.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RefusedError(NotHandedOverError):
    """The receiver will not take this decision however often it is offered."""


class NoAnswerError(NotHandedOverError):
    """The receiver did not take the decision this time; `retry_after` is the least wait in seconds that it asked for."""

    def __init__(self, code: str, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(code, message)
        self.retry_after = retry_after


class Receiver(Protocol):
    """Takes decisions, one call for each attempt, many at a time."""

    #: for metrics: `webhook` or `command`
    kind: str
    #: seconds after which an attempt ends by itself at the latest
    attempt_timeout: float

    async def hand_over(self, envelope: DecisionEnvelope) -> None:
        """Offer a decision once; returns when the receiver has it, else raises `RefusedError` or `NoAnswerError`.

        When it is cancelled nothing of the attempt goes on.
        """

    async def close(self) -> None:
        """Let go of what it holds."""
