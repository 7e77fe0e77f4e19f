"""Fewer repetitions in the log while a broker is away."""

import logging
import time
from collections.abc import Callable

#: aiokafka tries to connect about ten times a second while a broker is away, and says so each time.
INTERVAL = 10.0

_FILTERED = ("aiokafka", "aiokafka.conn", "aiokafka.client", "aiokafka.cluster", "aiokafka.producer.sender")
_FILTERED_CONSUMER = ("aiokafka.consumer.fetcher", "aiokafka.consumer.group_coordinator", "aiokafka.consumer.consumer")


class RepeatFilter(logging.Filter):
    """Let a message through once per interval (seconds), and say then how many were left out.

    Messages are the same when logger, level and format string are; the arguments (addresses, error numbers) may differ.
    """

    def __init__(self, *, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._interval = interval
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide on one record; debug messages always pass."""
        if record.levelno < logging.INFO:
            return True
        key = (record.name, record.levelno, str(record.msg))
        last, left_out = self._seen.get(key, (float("-inf"), 0))
        if self._clock() - last < self._interval:
            self._seen[key] = (last, left_out + 1)
            return False
        self._seen[key] = (self._clock(), 0)
        if left_out:
            record.msg = f"{record.msg} ({left_out} like this left out)"
        return True


def limit_repetitions() -> None:
    """Put the filter on aiokafka's loggers, once."""
    for name in _FILTERED + _FILTERED_CONSUMER:
        logger = logging.getLogger(name)
        if not any(isinstance(present, RepeatFilter) for present in logger.filters):
            logger.addFilter(RepeatFilter())
