"""A whole workload: many runs side by side, some events twice, some records no events."""

import random
from dataclasses import replace

from tests.faults.workload.events import Input, RunEvents
from tests.faults.workload.invalid import invalid_record
from tests.faults.workload.shapes import REPEATABLE, SHAPES

#: Parts of the records that are copies of an event that came before, and that are no events.
DUPLICATES = 0.03
INVALID = 0.02

#: Every how many-th run is published to another partition than its own.
MISROUTED_EVERY = 8


def make_workload(*, seed: int, runs: int, calls: int, partitions: int, ending: bool = True) -> list[Input]:
    """Return records of `runs` runs of about `calls` calls each, interleaved, in the order in which they are to be published.

    With `ending` off no run ends: the state of a run that has ended is deleted one commit after its last event is committed,
    which is a write without an event.
    """
    rng = random.Random(seed)
    weights = {shape: weight for shape, weight in SHAPES.items() if ending or not shape.__name__.startswith("ended")}
    queues: list[tuple[list[Input], bool]] = []
    for number in range(runs):
        (shape,) = rng.choices(list(weights), weights=list(weights.values()))
        # every tenth run comes from a gateway that counts nothing; copies of its events would count as new ones
        sequenced = bool(number % 10) or shape.__name__.startswith(("compacted", "ended"))
        run = RunEvents(f"{shape.__name__}-{number:05d}", partitions, sequenced=sequenced, agent_id=f"agent-{number % 3}")
        shape(run, rng, rng.randint(max(1, calls // 2), calls * 3 // 2))
        # A gateway that partitions in its own way: all of a run comes to one wrong partition, and is sent on from there.
        if number % MISROUTED_EVERY == 3 and shape in REPEATABLE and sequenced:
            run.made = [replace(event, partition=(event.partition + 1) % partitions) for event in run.made]
        queues.append((run.made, shape in REPEATABLE and sequenced))
    positions = [0] * runs
    live = list(range(runs))
    made: list[Input] = []
    while live:
        number = rng.choice(live)
        events, repeatable = queues[number]
        made.append(events[positions[number]])
        if repeatable and rng.random() < DUPLICATES:
            made.append(events[rng.randrange(positions[number] + 1)])
        positions[number] += 1
        if positions[number] == len(events):
            live.remove(number)
        if rng.random() < INVALID:
            made.append(invalid_record(rng, partitions))
    return made
