"""The same events under two policies: what the one decides and the other does not.

The events are those that happened. After a refusal an agent would have gone on differently, so numbers of calls are what the
policy would have refused of what was done, not what would have happened then.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from schemas.made_decisions import MadeDecision
from streams.audit.inputs import Input
from streams.audit.replayer import Recomputed, Replayer
from streams.detection.run_state import RUN, RunState

#: Statuses of `run.ended` that say that a run ended well, in lower case.
ENDED_WELL = frozenset({"complete", "completed", "done", "finished", "ok", "success", "successful", "succeeded"})

Kind = Literal["gained", "lost", "earlier", "later"]

#: What a decision is about: the action, the detector, and the tool and arguments of the target.
_About = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A decision that the other policy makes alone, or at another call of the run.

    `before` and `after` are the tool-call offsets at which it is first made under the policy in force and under the other one.
    """

    kind: Kind
    run_id: str
    agent_id: str | None
    action: str
    detector: str
    tool: str | None
    before: int | None
    after: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the change for programs."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(slots=True, kw_only=True)
class Difference:
    """What changes in numbers; the ones with `before` and `after` are under the policy in force and under the other.

    `calls_stopped` are calls that were made although the policy would have refused them or ended the run before; the difference
    is what the other policy saves. `ended_well_stopped` are runs that ended well in spite of that.
    """

    events: int = 0
    runs: int = 0
    unchanged: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    by_detector: Counter[str] = field(default_factory=Counter)
    by_agent: Counter[str] = field(default_factory=Counter)
    by_tool: Counter[str] = field(default_factory=Counter)
    runs_stopped: Counter[str] = field(default_factory=Counter)
    calls_stopped: Counter[str] = field(default_factory=Counter)
    calls_saved_by_agent: Counter[str] = field(default_factory=Counter)
    calls_saved_by_tool: Counter[str] = field(default_factory=Counter)
    ended_well_stopped: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Difference") -> None:
        """Add the numbers of another partition."""
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, mine + theirs if isinstance(mine, int) else Counter(_summed(mine, theirs)))

    @property
    def calls_saved(self) -> int:
        """Calls that the other policy would have refused and the one in force would not; negative when it is the other way."""
        return self.calls_stopped["after"] - self.calls_stopped["before"]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for programs; keys of the tables are `kind:name`."""
        return {**{name: _plain(getattr(self, name)) for name in self.__slots__}, "calls_saved": self.calls_saved}


def _summed(mine: Counter[str], theirs: Counter[str]) -> dict[str, int]:
    return {key: mine[key] + theirs[key] for key in {*mine, *theirs}}


def _plain(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, Counter) else value


class _Side:
    """What one policy makes of one run."""

    __slots__ = ("aborted", "first", "stopped")

    def __init__(self) -> None:
        self.first: dict[_About, int] = {}
        self.stopped = 0
        self.aborted = False

    @property
    def stops(self) -> bool:
        return self.aborted or self.stopped > 0


class _RunUnderBoth:
    __slots__ = ("after", "agent_id", "before", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.agent_id: str | None = None
        self.before, self.after = _Side(), _Side()


class WhatIf:
    """Feeds the same events to two replayers of one partition and compares them, run by run."""

    def __init__(self, before: Replayer, after: Replayer) -> None:
        self.difference = Difference()
        self._before, self._after = before, after
        self._runs: dict[str, _RunUnderBoth] = {}

    def feed(self, event: Input, *, status: str | None = None) -> Iterator[Change]:
        """Apply the next event; `status` is that of a `run.ended`. Yields what changes for runs that are over."""
        facts, run_id = event.facts, event.run_id
        self.difference.events += 1
        if facts.kind == "started":
            self._count_stopped(event)
        for one in self._before.feed(event):
            yield from self._take(one, "before")
        for one in self._after.feed(event):
            yield from self._take(one, "after")
        if facts.kind == "ended":
            self.difference.runs += 1
            yield from self._close(run_id, status)

    def finish(self) -> Iterator[Change]:
        """Yield what changes for runs that are not over."""
        self.difference.runs += self._before.live_runs
        for one in self._before.finish():
            yield from self._take(one, "before")
        for one in self._after.finish():
            yield from self._take(one, "after")
        for run_id in list(self._runs):
            yield from self._close(run_id, None)

    def _take(self, recomputed: Recomputed, side: Literal["before", "after"]) -> Iterator[Change]:
        decision = recomputed.decision
        if decision.action == "release" or recomputed.standing == "maybe":
            return
        run = self._runs.get(decision.run_id)
        if run is not None and run.since != decision.since.offset:
            yield from self._close(decision.run_id, None)
            run = None
        if run is None:
            run = self._runs[decision.run_id] = _RunUnderBoth(decision.since.offset)
        run.agent_id = decision.agent_id
        mine: _Side = getattr(run, side)
        mine.first.setdefault(_about(decision), decision.as_of.offset)
        mine.aborted = mine.aborted or (decision.action == "abort" and decision.mode == "enforce")

    def _count_stopped(self, event: Input) -> None:
        tool = event.facts.key[0] if event.facts.key is not None else ""
        for side, replayer, sign in (("before", self._before, -1), ("after", self._after, 1)):
            state = replayer.standing(event.run_id)
            if state is None or state.since is None or not _stops(state, event):
                continue
            self.difference.calls_stopped[side] += 1
            self.difference.calls_saved_by_tool[tool] += sign
            self.difference.calls_saved_by_agent[state.agent_id or ""] += sign
            run = self._runs.get(event.run_id)
            if run is not None:
                getattr(run, side).stopped += 1

    def _close(self, run_id: str, status: str | None) -> Iterator[Change]:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for side in ("before", "after"):
            if getattr(run, side).stops:
                self.difference.runs_stopped[side] += 1
                if status is not None and status.strip().lower() in ENDED_WELL:
                    self.difference.ended_well_stopped[side] += 1
        for about in sorted({*run.before.first, *run.after.first}, key=repr):
            before, after = run.before.first.get(about), run.after.first.get(about)
            if before == after:
                self.difference.unchanged += 1
                continue
            kind: Kind = "gained" if before is None else "lost" if after is None else "earlier" if after < before else "later"
            action, detector, tool, _ = about
            self.difference.changes[kind] += 1
            self.difference.by_detector[f"{kind}:{detector}"] += 1
            self.difference.by_agent[f"{kind}:{run.agent_id or ''}"] += 1
            self.difference.by_tool[f"{kind}:{tool or ''}"] += 1
            yield Change(
                kind=kind,
                run_id=run_id,
                agent_id=run.agent_id,
                action=action,
                detector=detector,
                tool=tool,
                before=before,
                after=after,
            )


def _about(decision: MadeDecision) -> _About:
    return decision.action, decision.detector, decision.target.tool, decision.target.args_hash


def _stops(state: RunState, event: Input) -> bool:
    """Whether a call that starts now is one that the policy would not have let through."""
    key = event.facts.key
    if key is None:
        return False
    for target in (RUN, (key[0],), key):
        standing = state.standing.get(target)
        if standing is not None and standing.action != "warn" and standing.mode == "enforce":
            return True
    return False
