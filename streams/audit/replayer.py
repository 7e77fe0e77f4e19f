"""The engine over the recorded inputs of one partition: what must have been decided, and what may have been."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from schemas.made_decisions import MadeDecision
from schemas.policy import PolicyDocument
from streams.audit.input_order import in_order
from streams.audit.inputs import Input
from streams.audit.policy_timeline import Era
from streams.detection import state_codec
from streams.detection.engine import ENGINE_VERSION, apply, expire, judge_again
from streams.detection.facts import Facts, RunPartition
from streams.detection.run_state import RunState

#: Further events for which the stub of an ended run is kept. A worker keeps it until the offsets are committed, half a second by
#: default; a gateway that sends a batch again after a lost answer does so within this many.
ENDED_KEPT = 10_000

#: Events between two looks for runs that have been idle for too long.
_SWEEP_EVERY = 100_000

#: Why a recomputed decision may not be what the worker could see.
Doubt = Literal["beginning", "policy", "engine"]

#: Compactions of a run whose windows overlap and that are followed at the same time; honest runs have one at a time.
_MAX_FORKS = 16

#: The run is over: a compaction that comes now changes nothing any more.
_OVER = 2**63

_NO_POLICY = PolicyDocument.from_mapping({})


class Cause(NamedTuple):
    """The event that brought a decision: whether it is a compaction, and the record's offset in its topic."""

    compaction: bool
    offset: int


class Recomputed(NamedTuple):
    """A decision that follows from the inputs.

    `standing` says whether it must have been published (`due`), will be (`soon`: the run was not judged again yet under the last
    policy), or may have been (`maybe`: the release of a run that may have been forgotten since, or the abort of one of which the
    next compaction may have been read late). For an abort `after` is the sequence of its
    compaction. For the release of one `withdrawal` says that a compaction contradicts it, and `lost` is the sequence below which
    a compaction that had not been read by then came too late: outcomes after it have left the history, or the run is over.
    """

    decision: MadeDecision
    standing: Literal["due", "soon", "maybe"] = "due"
    cause: Cause | None = None
    doubt: Doubt | None = None
    withdrawal: bool = False
    after: int | None = None
    lost: int = -1


class _LiveRun:
    """A run in replay: its state, the era it was brought under, and the incarnation about which there is doubt."""

    __slots__ = ("doubt", "doubt_since", "era", "forks", "new", "seen_at", "state")

    def __init__(self, run_id: str, era: int) -> None:
        self.state = RunState(run_id)
        self.era = era
        self.new = True
        self.doubt: Doubt | None = None
        self.doubt_since: int | None = None
        self.seen_at = 0
        self.forks: list[RunState] = []


class Replayer:
    """Rebuilds the runs of one partition and yields their decisions, in the order of the inputs.

    `eras` are the policies that judged the partition (see `policy_timeline.timeline`), or one policy for all of it. `start` is
    the first tool-call offset that is fed: runs seen first in a range that does not begin at 0 may have begun before it.
    Two hints answer where the inputs leave open what the worker did. `was_published`: a run may or may not have been judged under
    a policy before its next event began it afresh. `beginnings`: the offsets, ascending, at which runs began according to the
    decisions; an idle run may have been forgotten before it went on. Pure: no Kafka, no clock.
    """

    def __init__(
        self,
        eras: Sequence[Era] | PolicyDocument,
        *,
        partition: RunPartition,
        start: int = 0,
        run_ttl_ms: int | None = None,
        was_published: Callable[[str], bool] = lambda decision_id: True,
        beginnings: Iterable[int] = (),
    ) -> None:
        self.eras = [Era(policy=eras)] if isinstance(eras, PolicyDocument) else list(eras)
        if not self.eras:
            raise ValueError("eras: at least one policy is needed")
        self.partition = partition
        self._start = start
        self._ttl = run_ttl_ms
        self._was_published = was_published
        self._beginnings = iter(beginnings)
        self._beginning = next(self._beginnings, None)
        self._runs: dict[str, _LiveRun] = {}
        self._ended: deque[tuple[int, str]] = deque()
        #: events so far
        self.fed = 0
        self._sweep_at = self._tidy_at = _SWEEP_EVERY
        self._time = 0
        self._clock = 0
        self._era = 0
        self._enter(0)

    @property
    def runs(self) -> Container[str]:
        """The ids of the runs in memory, as they are at any time."""
        return self._runs.keys()

    @property
    def live_runs(self) -> int:
        """How many runs are in memory."""
        return len(self._runs)

    def standing(self, run_id: str) -> RunState | None:
        """Return the state of a run as far as it was fed, None when there is none."""
        live = self._runs.get(run_id)
        return None if live is None else live.state

    def replay(self, tool_calls: Iterable[Input], compactions: Iterable[Input] = ()) -> Iterator[Recomputed]:
        """Yield the decisions of whole ranges of both topics, then what may still come."""
        for event in in_order(tool_calls, compactions, self.eras):
            yield from self.feed(event)
        yield from self.finish()

    # -- events --------------------------------------------------------------------------------------------------------------

    def feed(self, event: Input) -> list[Recomputed]:
        """Apply the next event; all events below the offsets of the next era come before those at or above them."""
        run_id, facts, timestamp = event.run_id, event.facts, event.timestamp
        compaction, offset, time = facts.kind == "compaction", facts.offset, facts.time
        bound = self._bound
        while bound is not None and offset >= bound[compaction]:
            bound = self._enter(self._era + 1)
        self.fed += 1
        if timestamp > self._time:
            self._time = timestamp
        if time > self._clock:
            self._clock = time if time <= timestamp else max(timestamp, self._clock)  # a gateway's clock may be ahead
        if self.fed >= self._tidy_at:
            self._tidy_up()
        live = self._runs.get(run_id)
        if live is None:
            live = self._runs[run_id] = _LiveRun(run_id, self._era)
        state = live.state
        found: list[Recomputed] = []
        if live.era != self._era and not _is_duplicate(state, facts):
            found = self._catch_up(live, facts)
            state = live.state
        if self._beginning is not None and offset >= self._beginning and not compaction:
            found += self._begin_where_published(live, facts)
        if compaction or live.forks:
            found += self._fork(live, facts)
        before, lost = state.since, state.lost_outcome
        decisions = apply(state, facts, self._policy, run_ttl_ms=self._ttl).decisions
        if timestamp > live.seen_at:
            live.seen_at = timestamp
        if state.since != before and state.since is not None:
            self._begun(live)
        if state.ended:
            self._ended.append((self.fed, run_id))
            self._tidy_at = min(self._tidy_at, self._ended[0][0] + ENDED_KEPT + 1)
        if decisions:
            cause = Cause(compaction, offset)
            for decision in decisions:
                made = Recomputed(decision, "due", cause, self._doubt(live, decision))
                if decision.target.scope == "run":
                    made = _about_run(made, state, lost=lost if compaction else _OVER)
                found.append(made)
        return found

    def _fork(self, live: _LiveRun, event: Facts) -> list[Recomputed]:
        """Follow what becomes of a run when a compaction is read so late that it contradicts no abort any more.

        A fork begins where a compaction comes while the window of the one before is open or still to come, and ends when that
        window does. Its abort may have been made.
        """
        if event.kind == "compaction":
            guard = live.state.guard
            overlaps = event.arms and (guard.waiting or guard.armed_at is not None) and not _is_duplicate(live.state, event)
            if overlaps and len(live.forks) < _MAX_FORKS:
                live.forks.append(state_codec.decode(live.state.run_id, state_codec.encode(live.state)))
            return []
        found = [
            Recomputed(decision, "maybe", Cause(False, event.offset), self._doubt(live, decision))
            for fork in live.forks
            for decision in apply(fork, event, self._policy, run_ttl_ms=self._ttl).decisions
            if decision.action == "abort"
        ]
        live.forks = [fork for fork in live.forks if not fork.ended and (fork.guard.waiting or fork.guard.armed_at is not None)]
        return found

    def finish(self) -> Iterator[Recomputed]:
        """Yield what may be published later without another event: judging again, and the end of idle runs."""
        while self._bound is not None:
            self._enter(self._era + 1)
        for live in self._runs.values():
            if live.era != self._era:
                yield from self._catch_up(live, None)
            if live.state.standing:
                lost = live.state.lost_outcome
                for decision in expire(live.state, self.partition, self._policy):
                    yield Recomputed(decision, "maybe", doubt=self._doubt(live, decision), lost=lost)
        self._runs.clear()

    def _tidy_up(self) -> None:
        """Forget ended runs whose stubs were kept long enough, and from time to time those that were idle for too long."""
        ended = self._ended
        while ended and ended[0][0] < self.fed - ENDED_KEPT:
            _, gone = ended.popleft()
            if gone in self._runs and self._runs[gone].state.ended:
                del self._runs[gone]
        if self.fed >= self._sweep_at:
            self._sweep_at = self.fed + _SWEEP_EVERY
            if self._ttl is not None:
                self._sweep(self._ttl)
        self._tidy_at = min(self._sweep_at, ended[0][0] + ENDED_KEPT + 1 if ended else self._sweep_at)

    def _begin_where_published(self, live: _LiveRun, event: Facts) -> list[Recomputed]:
        """Forget an idle run of which the decisions say that it begins with this event."""
        while self._beginning is not None and self._beginning < event.offset:
            self._beginning = next(self._beginnings, None)
        last = live.state.last
        if self._beginning != event.offset or last is None or live.state.ended or self._ttl is None:
            return []
        if abs(self._clock - last.time) <= self._ttl:
            return []
        released = expire(live.state, self.partition, self._policy)
        live.new = False
        return [Recomputed(one, "maybe", doubt=self._doubt(live, one), lost=_OVER) for one in released]

    def _sweep(self, ttl: int) -> None:
        # Only for the memory, and by the records' own times: event times are the gateways' and may be anything. What stands is
        # kept, so that its release can be told.
        idle = [
            run_id
            for run_id, live in self._runs.items()
            if self._time - live.seen_at > ttl and not live.state.standing and not live.state.guard.waiting
        ]
        for run_id in idle:
            del self._runs[run_id]

    # -- policies --------------------------------------------------------------------------------------------------------------

    def _enter(self, era: int) -> tuple[int, int] | None:
        self._era = era
        current = self.eras[era]
        self._policy = current.policy or _NO_POLICY
        self._era_doubt: Doubt | None = None
        if current.policy is None:
            self._era_doubt = "policy"
        elif current.engine_version not in (None, ENGINE_VERSION):
            self._era_doubt = "engine"
        following = self.eras[era + 1] if era + 1 < len(self.eras) else None
        self._bound = None if following is None else (following.tool_calls_offset, following.compactions_offset)
        return self._bound

    def _catch_up(self, live: _LiveRun, event: Facts | None) -> list[Recomputed]:
        """Bring a run under the policies that came into force since its last event."""
        found: list[Recomputed] = []
        for era in range(live.era + 1, self._era + 1):
            state = live.state
            document = self.eras[era].policy or _NO_POLICY
            if state.ended or state.since is None or state.policy_version == document.version:
                continue
            # A policy gives way to the next only when all runs have been judged by it. Under the last one a run is judged in a
            # while, or by its next event, unless that begins it afresh or for another agent: then it may never be.
            certain = era < self._era or (event is not None and not self._turns(state, event))
            kept = b"" if certain else state_codec.encode(state)
            decisions = judge_again(state, self.partition, document)
            standing: Literal["due", "soon"] = "due"
            if not certain and decisions and not any(self._was_published(one.decision_id) for one in decisions):
                live.state = state_codec.decode(state.run_id, kept)
                if event is not None:
                    continue
                standing = "soon"
            cause = None if event is None else Cause(event.kind == "compaction", event.offset)
            found += [Recomputed(one, standing, cause, self._doubt(live, one)) for one in decisions]
        live.era = self._era
        if self._era_doubt is not None and live.state.since is not None:
            live.doubt, live.doubt_since = self._era_doubt, live.state.since
        return found

    def _turns(self, state: RunState, event: Facts) -> bool:
        if event.agent_id is not None and event.agent_id != state.agent_id:
            return True
        return (
            self._ttl is not None
            and event.kind != "compaction"
            and state.last is not None
            and event.time - state.last.time > self._ttl
        )

    # -- doubts ----------------------------------------------------------------------------------------------------------------

    def _begun(self, live: _LiveRun) -> None:
        doubt: Doubt | None = self._era_doubt
        if doubt is None and live.new and self._start > 0:
            doubt = "beginning"
        live.new = False
        live.doubt, live.doubt_since = doubt, live.state.since

    def _doubt(self, live: _LiveRun, decision: MadeDecision) -> Doubt | None:
        return live.doubt if live.doubt is not None and decision.since.offset == live.doubt_since else None


def _is_duplicate(state: RunState, event: Facts) -> bool:
    """Whether the engine will not even look at the event: it brings the run under no policy."""
    passed = state.compaction_sequence if event.kind == "compaction" else state.tool_sequence
    return event.sequence is not None and event.sequence <= passed


def _about_run(made: Recomputed, state: RunState, *, lost: int) -> Recomputed:
    """Add what tells whether a worker that read the topics in another order made the same abort, or release of one."""
    if made.decision.action == "abort":
        return made._replace(after=None if state.abort_window is None else state.abort_window[0])
    compaction = made.cause is not None and made.cause.compaction
    return made._replace(withdrawal=compaction, lost=lost)
