"""The standing verdicts of runs, folded from their decisions: what a gate answers from."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from sys import intern

from msgspec import Struct

from schemas.decisions import Action, Decision, Level
from schemas.policy.model import Mode

#: Which next calls a verdict is about: (tool, args hash), (tool, None), or (None, None) for all calls of the run.
Target = tuple[str | None, str | None]

RUN: Target = (None, None)

#: Decisions, and warnings given, that are remembered per run, to know copies of them. A crashed worker repeats what it decided
#: since its last commit (0.5 s by default). Copies of older ones are folded again and end at the same answers.
_MAX_REMEMBERED = 256


class Standing(Struct, frozen=True, gc=False):  # a gate holds many, and none of them a reference back
    """What the next calls with a target are told; the fields are those of the decision."""

    decision_id: str
    action: Action
    mode: Mode
    level: Level
    detector: str
    count: int
    paired_tool: str | None
    message: str
    target: Target

    @classmethod
    def of(cls, decision: Decision) -> "Standing":
        """Keep what an answer needs: a tenth of the memory of the decision."""
        return cls(
            decision.decision_id,
            decision.action,
            decision.mode,
            decision.level,
            intern(decision.detector),
            decision.count,
            decision.paired_tool,
            decision.message,
            _target(decision),
        )


class RunVerdicts:
    """What is known about one run.

    `partition` is the run's, `newest` the highest offset of an event that its decisions are as of. `heard_at` is given by the
    caller of `fold`: when a decision came last.
    """

    __slots__ = ("given", "heard_at", "newest", "partition", "seen", "standing")

    def __init__(self, partition: int) -> None:
        self.standing: dict[Target, Standing] = {}
        self.partition = partition
        self.newest = -1
        self.heard_at = 0.0
        self.seen: dict[int, None] = {}
        self.given: dict[int, None] | None = None

    def answers(self, tool: str, args_hash: str | None) -> Iterator[Standing]:
        """Yield what stands about a call, the widest first; `tool` is the normalised name."""
        standing = self.standing
        for target in (RUN, (tool, None)) if args_hash is None else (RUN, (tool, None), (tool, args_hash)):
            found = standing.get(target)
            if found is not None:
                yield found

    def is_about(self, tool: str) -> bool:
        """Say whether something stands about single calls of a tool, so that their arguments matter."""
        return any(target[0] == tool and target[1] is not None for target in list(self.standing))

    def take_warning(self, warning: Standing) -> bool:
        """Forget a warning that is being given; return whether it was still there: of two askers one gives it."""
        if self.standing.get(warning.target) is not warning or self.standing.pop(warning.target, None) is None:
            return False
        self.given = self.given or {}
        _remember(self.given, warning.decision_id)
        return True


class VerdictMap:
    """Per run, what the next calls with a target would be told.

    Decisions are folded in the order of their partition. A copy of a decision (a worker crashed before it had committed) changes
    nothing, and above all does not let a warning stand that was given; only copies as of the run's latest event are folded again,
    because a policy that comes, goes and comes back makes the same decision twice and means it.

    At most `max_runs` runs are kept: then those without standing verdicts go first, then those not heard of for longest, of which
    `on_evicted` is told.
    """

    def __init__(self, *, max_runs: int | None = None, on_evicted: Callable[[str], None] = lambda run_id: None) -> None:
        self.runs: OrderedDict[str, RunVerdicts] = OrderedDict()
        self._max_runs = max_runs
        self._on_evicted = on_evicted

    def fold(self, decision: Decision, *, heard_at: float = 0.0) -> bool:
        """Take in the next decision; return whether it is news, and no copy."""
        run = self.runs.get(decision.run_id)
        if run is None:
            if decision.action == "release":
                return False
            run = self.runs[decision.run_id] = RunVerdicts(decision.as_of.partition)
            self._make_room(decision.run_id)
        else:
            self.runs.move_to_end(decision.run_id)  # in one step: a check in another thread must not miss the run
        run.heard_at = max(run.heard_at, heard_at)
        number = _number(decision.decision_id)
        copy = number in run.seen
        if copy and decision.as_of.offset < run.newest:
            return False
        _remember(run.seen, decision.decision_id)
        run.newest = max(run.newest, decision.as_of.offset)
        target = _target(decision)
        if decision.action == "release" or (run.given is not None and number in run.given):
            run.standing.pop(target, None)
        else:
            run.standing[target] = Standing.of(decision)
        return not copy

    def lookup(self, run_id: str, tool: str, args_hash: str) -> Standing | None:
        """Return what answers for a call: about the run, else its tool, else its signature.

        `tool` is the normalised name (`schemas.fingerprints.normalize_tool`).
        """
        run = self.runs.get(run_id)
        return None if run is None else next(run.answers(tool, args_hash), None)

    def take_warning(self, run_id: str, warning: Standing) -> None:
        """Forget a warning that was given: it is given once."""
        run = self.runs.get(run_id)
        if run is not None:
            run.take_warning(warning)

    def forget(self, run_id: str) -> None:
        """Forget a run."""
        self.runs.pop(run_id, None)

    def forget_partition(self, partition: int) -> None:
        """Forget the runs of a partition."""
        for run_id, run in list(self.runs.items()):  # the list is made in one step: other threads ask meanwhile
            if run.partition == partition:
                self.runs.pop(run_id, None)

    def heard(self, run_id: str, at: float) -> None:
        """Note that a run is still spoken of, so that it does not count as idle."""
        run = self.runs.get(run_id)
        if run is not None:
            run.heard_at = max(run.heard_at, at)
            self.runs.move_to_end(run_id)

    def forget_idle(self, before: float) -> None:
        """Forget the runs not heard of since `before`."""
        for run_id, run in list(self.runs.items()):  # in one step, as above
            if run.heard_at >= before:
                return
            self.runs.pop(run_id, None)

    def _make_room(self, newcomer: str) -> None:
        if self._max_runs is None or len(self.runs) <= self._max_runs:
            return
        # A look at all of them makes room for an eighth: a look for each new run would take longer the more runs there are.
        too_many = len(self.runs) - self._max_runs + self._max_runs // 8
        settled = [run_id for run_id, run in list(self.runs.items()) if not run.standing]
        for run_id in settled[:too_many]:
            if run_id != newcomer:
                self.runs.pop(run_id, None)
        while len(self.runs) > self._max_runs:
            run_id, _ = self.runs.popitem(last=False)
            self._on_evicted(run_id)


def _target(decision: Decision) -> Target:
    tool = decision.target.tool
    return None if tool is None else intern(tool), decision.target.args_hash


def _number(decision_id: str) -> int:
    """Return half of an id, which is enough to tell a run's decisions apart and takes a third of the memory."""
    return int(decision_id[:16], 16)


def _remember(ids: dict[int, None], decision_id: str) -> None:
    ids[_number(decision_id)] = None
    if len(ids) > _MAX_REMEMBERED:
        ids.pop(next(iter(tuple(ids))), None)  # the tuple is made in one step: another thread may be at it
