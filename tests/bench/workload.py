"""The events that the benchmarks play: many runs side by side, a few of them looping, a few events twice.

Made by a seeded generator, so that every contender and every round gets the same ones.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import xxhash

from schemas import cloudevents
from schemas.events import ToolCallFinished, ToolCallStarted
from streams.intake.outgoing import OutgoingEvent

#: Parts of the runs that loop, and of the events that come twice.
LOOPING = 0.03
TWICE = 0.02

#: Tools in about the shares that coding agents use them, with a typical argument and result for raw events.
_TOOLS = (
    ("exec", 45, {"command": "pytest -q tests/test_api.py"}, 900),
    ("read", 25, {"path": "src/app/service/handlers.py"}, 2400),
    ("edit", 15, {"path": "src/app/service/handlers.py", "old": "return None", "new": "return result"}, 120),
    ("grep", 10, {"pattern": "def handle_", "path": "src"}, 700),
    ("web_search", 5, {"query": "python asyncio gather return_exceptions"}, 1800),
)
_START_MS = 1_790_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """How many events of how many runs; `raw` sends arguments and results instead of their hashes.

    `first_call` is the number of the calls that each run has made before.
    """

    events: int
    runs: int
    raw: bool = False
    first_call: int = 0
    seed: int = 7


def looping_runs(workload: Workload) -> set[str]:
    """Return the ids of the runs that loop; the others never make a call twice, so nothing is decided about them."""
    return {run_id_of(run) for run in _looping(workload, random.Random(workload.seed))}


def _looping(workload: Workload, rng: random.Random) -> set[int]:
    return set(rng.sample(range(workload.runs), round(workload.runs * LOOPING)))


def run_id_of(run: int) -> str:
    """Return the id of a run."""
    return f"run_{run:08d}"


def make(workload: Workload, topic: str) -> Iterator[OutgoingEvent]:
    """Yield the events in the order of their time; a run has `events / runs` of them, started and finished in turn."""
    rng = random.Random(workload.seed)
    looping = _looping(workload, rng)
    tools, weights = [entry[0] for entry in _TOOLS], [entry[1] for entry in _TOOLS]
    contents = {name: (arguments, size) for name, _, arguments, size in _TOOLS}
    made = 0
    for number in range(workload.events):
        run, step = number // 2 % workload.runs, number // 2 // workload.runs + workload.first_call
        loops = run in looping
        draw = random.Random(run if loops else run * 1_000_003 + step)
        [tool] = draw.choices(tools, weights)
        run_id = run_id_of(run)
        identity = b"%d:%d" % (run, 0 if loops else step)
        data: dict[str, object] = {
            "run_id": run_id,
            "agent_id": f"agent-{run % 20}",
            "tool": tool,
            "call_id": f"call_{number // 2:024x}",
        }
        arguments, size = contents[tool]
        if workload.raw:
            data["params"] = {**arguments, "n": 0 if loops else step}
        else:
            data["args_hash"] = xxhash.xxh3_128_hexdigest(identity)
        model: type[ToolCallStarted | ToolCallFinished] = ToolCallStarted
        if number % 2:
            model = ToolCallFinished
            if workload.raw:
                data["result"] = {"content": [{"type": "text", "text": f"{run} {0 if loops else step} ".ljust(size, "x")}]}
            else:
                data["outcome_hash"] = xxhash.xxh3_128_hexdigest(b"result " + identity)
        sequence = 2 * step + number % 2 + 1
        value = cloudevents.structured(
            event_type=model.event_type(),
            source="bench-gateway",
            event_id=f"{run_id}:{sequence}",
            run_id=run_id,
            data=data,
            time=_START_MS + number,
            sequence=sequence,
        )
        event = OutgoingEvent(topic=topic, key=run_id.encode(), value=value, run_id=run_id, sequence=sequence)
        for _ in range(2 if rng.random() < TWICE else 1):
            if made == workload.events:
                return
            made += 1
            yield event
