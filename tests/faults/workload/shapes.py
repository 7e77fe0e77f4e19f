"""Shapes of runs: healthy, stuck in each way that a detector knows, compacted, ended.

What the workers decide must not depend on how the two topics interleave when they are read, and that holds as far back as a run's
history reaches. So a run has at most one compaction, and fewer calls after it than a history holds; and a run with compactions is
not ended (a compaction that is read after the end leaves a state behind, one that is read before does not).
"""

import random
from collections.abc import Callable

from tests.faults.workload.events import RunEvents

Shape = Callable[[RunEvents, random.Random, int], None]


def healthy(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Make different calls with different results."""
    for number in range(calls):
        tool = rng.choice(["read", "edit", "exec", "web_fetch"])
        run.call(tool, {"path": f"src/{number}.py", "n": rng.random()}, {"text": f"line {rng.random()}"})


def repeating(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Make one call over and over, with one result."""
    for _ in range(calls):
        run.call("read", {"path": "a.txt"}, "the same")


def in_bursts(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Repeat for a while, then go on with something else, so that verdicts come and go."""
    made = 0
    while made < calls:
        burst = rng.randint(8, 25)
        for _ in range(burst):
            run.call("exec", {"command": f"make {made}"}, {"exit": 2, "text": "failed"})
        healthy(run, rng, rng.randint(3, 40))
        made += burst


def ping_pong(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Go back and forth between two calls."""
    for number in range(calls):
        run.call("read", {"path": "ab"[number % 2]}, f"the same {number % 2}")


def polling(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Ask a process for its output, which does not change."""
    for _ in range(calls):
        run.call("process", {"action": "poll", "sessionId": "p1"}, {"status": "running", "aggregated": "..."})


def unknown_tool(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Call a tool that does not exist."""
    for number in range(calls):
        run.call("serch", {"q": number}, error="Tool serch not found")


def compacted(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Work, be compacted, and go on with the same call: the guard ends the run."""
    healthy(run, rng, min(calls, 12))
    run.compaction()
    for _ in range(rng.randint(3, 12)):
        run.call("read", {"path": "plan.md"}, "the plan")


def compacted_and_well(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Work, be compacted, and work on."""
    healthy(run, rng, min(calls, 12))
    run.compaction()
    healthy(run, rng, rng.randint(3, 12))


def ended(run: RunEvents, rng: random.Random, calls: int) -> None:
    """Loop, then end: what stood is released and the state goes."""
    repeating(run, rng, min(calls, 22))
    run.ended()


def ended_and_begun_again(run: RunEvents, rng: random.Random, calls: int) -> None:
    """End, and begin again under the same id."""
    repeating(run, rng, 12)
    run.ended()
    repeating(run, rng, max(1, calls - 12))


#: shape -> how often it comes up
SHAPES: dict[Shape, int] = {
    healthy: 5,
    repeating: 3,
    in_bursts: 3,
    ping_pong: 2,
    polling: 2,
    unknown_tool: 2,
    compacted: 2,
    compacted_and_well: 1,
    ended: 2,
    ended_and_begun_again: 1,
}

#: Shapes whose events may be published twice. A copy that comes after the end of its run brings the run back to life or not,
#: depending on whether its state is still there.
REPEATABLE = frozenset({healthy, repeating, in_bursts, ping_pong, polling, unknown_tool, compacted, compacted_and_well})
