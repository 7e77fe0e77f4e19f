"""One order of the two input topics of a partition, of the many that a worker may have read them in."""

from collections.abc import Iterable, Iterator, Sequence

from streams.audit.inputs import Input
from streams.audit.policy_timeline import Era

#: Milliseconds by which a compaction goes before the tool calls of its time. One that comes early waits for its place by its
#: sequence and changes nothing; one that comes late may find that the outcomes after its place have left the history.
LEAD_MS = 1_000


def in_order(tool_calls: Iterable[Input], compactions: Iterable[Input], eras: Sequence[Era]) -> Iterator[Input]:
    """Merge the topics by the time of their records, each in its own order.

    Events below the offsets of an era come before all events at or above them. A compaction without a sequence counts at its
    own time: its place is where it is read.
    """
    calls, others = iter(tool_calls), iter(compactions)
    waiting = next(others, None)
    bounds = iter([(era.tool_calls_offset, era.compactions_offset) for era in eras[1:]])
    bound = next(bounds, None)
    while waiting is not None:
        call = next(calls, None)
        if call is None:
            break
        while bound is not None and call.facts.offset >= bound[0]:
            while waiting is not None and waiting.facts.offset < bound[1]:
                yield waiting
                waiting = next(others, None)
            bound = next(bounds, None)
        while (
            waiting is not None
            and (bound is None or waiting.facts.offset < bound[1])
            and waiting.timestamp <= call.timestamp + (LEAD_MS if waiting.facts.sequence is not None else 0)
        ):
            yield waiting
            waiting = next(others, None)
        yield call
    yield from calls  # without compactions there is nothing to be put in order
    while waiting is not None:
        yield waiting
        waiting = next(others, None)
