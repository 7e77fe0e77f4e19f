"""From `--from` and `--to` to offsets: what of each partition an audit reads.

A bound is an offset of the tool-calls topic (`agent.tool-calls.v1[3]@1042` or `3:1042` for one partition, `1042` for each) or a
time (RFC 3339, or milliseconds since 1970). `--to` is exclusive. Compactions are read for the time of the tool calls and an hour
around it: what they change goes by sequence, so more of them than needed changes nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.cloudevents import format_time, time_ms
from schemas.topics import Topics
from streams.audit.log_reader import LogReader

#: Whole numbers from here on are milliseconds since 1970 (1973 and later), below it they are offsets.
_FIRST_TIME_MS = 10**11

#: Milliseconds of compactions that are read before and after the tool calls of a range.
AROUND_MS = 60 * 60 * 1000

_PLACE = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]@(?P<offset>\d+)", re.ASCII)
_SHORT = re.compile(r"(?P<partition>\d+):(?P<offset>\d+)", re.ASCII)


class RangeError(ValueError):
    """A range that cannot be read; the message names the bound and what would do."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: an offset, of one partition or of each, or a time in milliseconds; `text` is how it was given."""

    text: str
    partition: int | None = None
    offset: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """What is read of a partition: tool calls and compactions from an offset up to another, and all its decisions.

    `log_start` is the first tool call that still exists; `open_end` says that the range goes as far as the topic does.
    """

    partition: int
    start: int
    end: int
    log_start: int
    open_end: bool
    compactions: tuple[int, int]
    decisions: tuple[int, int]

    @property
    def events(self) -> int:
        """How many records of the inputs there are to read at most."""
        return self.end - self.start + self.compactions[1] - self.compactions[0]


def parse_bound(text: str, *, topics: Topics) -> Bound:
    """Read one `--from` or `--to`; raises `RangeError`."""
    given = text.strip()
    if match := _PLACE.fullmatch(given):
        if match["topic"] != topics.tool_calls:
            raise RangeError(
                f"{text}: ranges are offsets of {topics.tool_calls}; the compactions of their time are read with them"
            )
        return Bound(text, partition=int(match["partition"]), offset=int(match["offset"]))
    if match := _SHORT.fullmatch(given):
        return Bound(text, partition=int(match["partition"]), offset=int(match["offset"]))
    if given.isascii() and given.isdigit():
        number = int(given)
        return Bound(text, time=number) if number >= _FIRST_TIME_MS else Bound(text, offset=number)
    try:
        return Bound(text, time=time_ms(given))
    except ValueError:
        raise RangeError(
            f"{text}: neither an offset ({topics.tool_calls}[3]@1042, 3:1042 or 1042) nor a time"
            " (2026-11-30T12:00:00Z, or milliseconds since 1970)"
        ) from None


def resolve(
    reader: LogReader,
    topics: Topics,
    *,
    partitions: int,
    start: Sequence[Bound] = (),
    end: Sequence[Bound] = (),
    only: Sequence[int] = (),
) -> list[PartitionRange]:
    """Return what is to be read, with the ends as they are now; raises `RangeError`.

    Bounds with a partition limit the range to the partitions that are named; `only` does so, too. Partitions in which the range
    is empty are left out.
    """
    chosen = _chosen(partitions, start, end, only)
    ends = {number: reader.bounds(topics.tool_calls, number) for number in chosen}
    _check_retention(reader, topics, ends, start)
    ranges = []
    for number, (log_start, log_end) in ends.items():
        first = _offset(reader, topics, number, start, default=log_start, none=log_end)
        behind = _offset(reader, topics, number, end, default=log_end, none=log_end)
        _check(topics, number, log_start, log_end, first, start)
        _check(topics, number, log_start, log_end, behind, end)
        if first > behind:
            raise RangeError(f"{topics.tool_calls}[{number}]: the range ends at {behind}, before it begins at {first}")
        whole = _complete(reader, topics, number, (log_start, log_end), first, behind)
        # Decisions in a partition without events are worth a look, too.
        if first < behind or (not start and not end and whole.decisions[0] < whole.decisions[1]):
            ranges.append(whole)
    if not ranges:
        of = (
            f"partition{'s' if len(chosen) > 1 else ''} {', '.join(map(str, chosen))}"
            if len(chosen) < partitions
            else "any partition"
        )
        between = " and ".join(bound.text for bound in (*start, *end))
        raise RangeError(f"{topics.tool_calls}: there is no event in {of}" + (f" within {between}" if between else ""))
    return ranges


def _chosen(partitions: int, start: Sequence[Bound], end: Sequence[Bound], only: Sequence[int]) -> list[int]:
    named = {bound.partition for bound in (*start, *end) if bound.partition is not None}
    chosen = sorted((named & set(only) if named and only else named or set(only)) or set(range(partitions)))
    for number in sorted(named | set(only)):
        if not 0 <= number < partitions:
            raise RangeError(f"partition {number}: there are {partitions} (0 to {partitions - 1})")
    return chosen


def _check_retention(reader: LogReader, topics: Topics, ends: dict[int, tuple[int, int]], start: Sequence[Bound]) -> None:
    times = [bound for bound in start if bound.time is not None]
    if not times:
        return
    oldest = [
        reader.time_at(topics.tool_calls, number, first, behind) for number, (first, behind) in ends.items() if 0 < first < behind
    ]
    if oldest and times[0].time is not None and times[0].time < min(oldest):
        raise RangeError(
            f"{times[0].text}: older events have expired, the oldest that is left is of {format_time(min(oldest))};"
            " begin there, or leave the beginning out"
        )


def _offset(reader: LogReader, topics: Topics, number: int, bounds: Sequence[Bound], *, default: int, none: int) -> int:
    for bound in (*(one for one in bounds if one.partition == number), *(one for one in bounds if one.partition is None)):
        if bound.offset is not None:
            return bound.offset
        if bound.time is not None:
            found = reader.offset_at(topics.tool_calls, number, bound.time)
            return none if found is None else found
    return default


def _check(topics: Topics, number: int, log_start: int, log_end: int, offset: int, bounds: Sequence[Bound]) -> None:
    if log_start <= offset <= log_end:
        return
    text = next((one.text for one in bounds if one.partition == number), bounds[0].text if bounds else "")
    reason = f"offsets below {log_start} have expired" if offset < log_start else f"the partition ends at {log_end}"
    raise RangeError(f"{text}: {topics.tool_calls}[{number}] has offsets {log_start} to {log_end}: {reason}")


def _complete(reader: LogReader, topics: Topics, number: int, log: tuple[int, int], first: int, behind: int) -> PartitionRange:
    begin, stop = reader.bounds(topics.compactions, number)
    if log[0] < first < behind:
        stamp = reader.time_at(topics.tool_calls, number, first, behind)
        begin = _not_before(reader, topics.compactions, number, stamp - AROUND_MS, begin, stop)
    if first < behind < log[1]:
        stamp = reader.time_at(topics.tool_calls, number, behind - 1, behind)
        stop = _not_before(reader, topics.compactions, number, stamp + AROUND_MS, begin, stop)
    return PartitionRange(
        partition=number,
        start=first,
        end=behind,
        log_start=log[0],
        open_end=behind == log[1],
        compactions=(begin, max(begin, stop)),
        decisions=reader.bounds(topics.decisions, number),
    )


def _not_before(reader: LogReader, topic: str, number: int, time: int, first: int, behind: int) -> int:
    found = reader.offset_at(topic, number, time)
    return behind if found is None else min(max(found, first), behind)
