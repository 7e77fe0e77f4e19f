"""How far the judging of an input partition is behind its log, in records and in seconds."""

from typing import NamedTuple

from streams.transport.reading import Reading

#: Seconds without an answer from the partition's leader until "nothing left to read" is not believed any more. An idle partition
#: is asked several times a second.
HEARD_LATELY = 5.0


class Lag(NamedTuple):
    """Records that are not judged yet, and how long the oldest has been in the log at most.

    Not `certain`: nothing of the partition was judged here yet, so it is not known how old its backlog is; `seconds` then count
    from the first look.
    """

    records: int
    seconds: float
    certain: bool = True


class LagClock:
    """Turns what is known about one partition into its lag, look after look.

    The oldest record that waits was written after the last one that was judged, by the times in the records; and after the
    moment when nothing waited. The later of the two bounds its age, so neither a quiet partition nor a producer whose clock is
    slow looks like a backlog.
    """

    def __init__(self) -> None:
        self._caught_up_at: float | None = None
        self._first_look: float | None = None

    def look(self, reading: Reading, *, next_offset: int, judged_time: int | None, now: float) -> Lag | None:
        """Return the lag, None before the partition's end is known.

        `next_offset` is the offset after the last judged record, `judged_time` the time in that record (milliseconds), `now`
        seconds since 1970.
        """
        if reading.end is None or reading.heard_at is None:
            return None
        if self._first_look is None:
            self._first_look = now
        records = max(0, reading.end - max(next_offset, reading.passed or 0))
        if records == 0:
            self._caught_up_at = reading.heard_at
            if now - reading.heard_at <= HEARD_LATELY:
                return Lag(0, 0.0)
        known = [moment for moment in (self._caught_up_at, _seconds(judged_time)) if moment is not None]
        return Lag(records, max(0.0, now - max(known or [self._first_look])), certain=bool(known))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None or milliseconds < 0 else milliseconds / 1000
