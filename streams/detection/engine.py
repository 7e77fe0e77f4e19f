"""The engine: applies one event to a run's state and says how its standing verdicts changed.

After each event the question is which next calls the detectors would stop or warn about now. Only a few answers can have changed:
those of the event's own signature, of the signatures that left the history, and of the two sides of the alternation before and
after. A decision is emitted whenever the answer for a target changes, so that the decisions of a run, folded in order, are its
standing verdicts at any time.

Everything is a function of the sequence: whatever the interleaving of the two input topics, the same decisions come out. The one
exception cannot be helped: an abort that is contradicted by a compaction which is read after it is withdrawn by a `release`.
"""

from typing import Literal, final

from mypy_extensions import mypyc_attr

from schemas.made_decisions import EvidenceCall, MadeDecision
from schemas.policy import PolicyDocument
from streams.detection import guard as compaction_guard
from streams.detection.facts import Facts, RunPartition
from streams.detection.history import Call, Outcome, SignatureKey
from streams.detection.run_state import RUN, LastEvent, RunState, Standing, TargetKey
from streams.detection.standing_verdicts import ENGINE_VERSION, WARNING_BUCKET, StandingVerdicts, abort_message

__all__ = ["ENGINE_VERSION", "Applied", "Effect", "apply", "expire", "guard_status", "judge_again"]

Effect = Literal["applied", "ignored", "duplicate", "redelivered", "late_compaction"]


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Applied:
    """What became of an event: its effect, and the decisions that it brought.

    `ignored` events are valid but change nothing (an outcome without identity, a refused call, a compaction that is too late or
    without a retry); `duplicate` ones have a sequence that was passed; `redelivered` ones an offset that the state contains.
    """

    __slots__ = ("decisions", "effect")

    def __init__(self, effect: Effect, decisions: list[MadeDecision]) -> None:
        self.effect: Effect = effect
        self.decisions = decisions


def apply(state: RunState, event: Facts, policy: PolicyDocument, *, run_ttl_ms: int | None = None) -> Applied:
    """Apply one event to a run's state, in place.

    An event of the tool-calls topic that comes more than `run_ttl_ms` (event time) after the one before it starts the run afresh,
    whether or not the idle run was dropped meanwhile. So does the first event after the end of a run: what is left of that one
    only tells events that are delivered again.
    """
    compaction = event.kind == "compaction"
    if event.offset <= (state.compaction_offset if compaction else state.tool_offset):
        return Applied("redelivered", [])
    if compaction:
        state.compaction_offset = event.offset
    else:
        state.tool_offset = event.offset
    expired: list[MadeDecision] | None = None
    if run_ttl_ms is not None and not compaction and state.last is not None and event.time - state.last.time > run_ttl_ms:
        expired = expire(state, event.partition, policy, keep_waiting=event.time - state.last_time <= run_ttl_ms)
    passed = state.compaction_sequence if compaction else state.tool_sequence
    if event.sequence is not None and event.sequence <= passed:
        return Applied("duplicate", expired or [])
    state.ended = False
    # A compaction names session and agent only as long as no tool call has: else it would depend on how the topics interleave.
    if event.session_id is not None and (not compaction or state.session_id is None):
        state.session_id = event.session_id
    other_agent = event.agent_id is not None and event.agent_id != state.agent_id and (not compaction or state.agent_id is None)
    if other_agent:
        state.agent_id = event.agent_id
        state.rules = None
    turn = _Turn(state, event.partition, policy)
    if other_agent or state.policy_version != policy.version:
        turn.judge_all()
    state.last_time = max(state.last_time, event.time)
    effect = turn.compaction(event) if compaction else turn.tool_event(event)
    return Applied(effect, expired + turn.decisions if expired else turn.decisions)


def expire(state: RunState, partition: RunPartition, policy: PolicyDocument, *, keep_waiting: bool = False) -> list[MadeDecision]:
    """Forget a run that has been idle for too long; what stood is released.

    Compactions that wait for its next tool call are kept on demand: they may have come long after the last one.
    """
    turn = _Turn(state, partition, policy)
    turn.release_all()
    waiting = state.guard.waiting if keep_waiting else []
    state.begin()
    for sequence in waiting:
        state.guard.wait(sequence)
    return turn.decisions


def judge_again(state: RunState, partition: RunPartition, policy: PolicyDocument) -> list[MadeDecision]:
    """Bring a run's standing verdicts under another policy without an event."""
    turn = _Turn(state, partition, policy)
    if state.policy_version != policy.version and not state.ended:
        turn.judge_all()
    return turn.decisions


def guard_status(state: RunState, policy: PolicyDocument) -> tuple[bool, int]:
    """Return whether the guard is armed and how many observations are left."""
    effective = policy.for_agent(state.agent_id)
    remaining = state.guard.remaining(effective.guard_window) if effective.guard_on else 0
    return remaining > 0, remaining


@mypyc_attr(acyclic=True)
@final
class _Found:
    """An abort that the guard found: the call, its count, the calls it rests on, and the outcome that completed the window."""

    __slots__ = ("as_of", "count", "evidence", "tool")

    def __init__(self, tool: str, count: int, evidence: tuple[tuple[int | None, str | None], ...], as_of: LastEvent) -> None:
        self.tool = tool
        self.count = count
        self.evidence = evidence
        self.as_of = as_of


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class _Turn(StandingVerdicts):
    """One event, and the decisions that it brings."""

    __slots__ = ()

    # -- events --------------------------------------------------------------------------------------------------------------

    def tool_event(self, event: Facts) -> Effect:
        state = self.state
        if event.sequence is not None:
            state.tool_sequence = event.sequence
        if state.since is None:
            state.since = event.offset
        state.last = LastEvent(event.sequence, event.call_id, event.offset, event.time)
        if state.guard.waiting:
            state.guard.reach(event.sequence, self.policy.guard_window if self.policy.guard_on else None)
        if event.kind == "ended":
            self._end()
            return "applied"
        if event.key is None:
            raise ValueError(f"{event.kind}: facts of a tool call need its signature")
        if event.kind == "started":
            return self._started(event, event.key)
        if event.kind == "finished" and event.outcome is not None:
            return self._finished(event, event.key, event.outcome)
        return "ignored"

    def _end(self) -> None:
        self.release_all()
        self.state.begin()
        self.state.ended = True

    def _started(self, event: Facts, key: SignatureKey) -> Effect:
        state = self.state
        if state.standing:
            self._made(key)
        if not self.rules.records_calls:
            return "ignored"
        history = state.history
        before = self._loud_alternation()
        call = history.append(key, poll=event.poll, sequence=event.sequence, call_id=event.call_id)
        self._judge_changed(call.signature, before)
        return "applied"

    def _made(self, key: SignatureKey) -> None:
        """Say so when the call was to be refused, and count a warning about it as given."""
        state = self.state
        tool_wide: TargetKey = (key[0],)
        target: TargetKey = key
        if tool_wide in state.standing and (self._covered(key[0]) or target not in state.standing):
            target = tool_wide
        standing = state.standing.get(target)
        if standing is not None and standing.action == "block":
            verdict = self._verdict_of(target)
            if verdict is not None:
                self._emit("block", target, standing, verdict=verdict, late=True)
        elif standing is not None and standing.action == "warn":
            state.announce(standing.warning_key, standing.count // WARNING_BUCKET)
            del state.standing[target]
            self._release(target, standing, "used")

    def _finished(self, event: Facts, key: SignatureKey, digest: bytes) -> Effect:
        history = self.state.history
        before = self._loud_alternation()
        call = history.pending_call(key, event.call_id)
        if call is None:
            call = history.append(key, poll=event.poll, sequence=event.sequence, call_id=event.call_id)
        history.settle(call, Outcome(digest, event.sequence, event.offset, event.time, event.unknown_tool))
        if self.state.guard.armed_at is not None and self.policy.guard_on and (abort := self._observe(call)) is not None:
            self._abort(abort)
        self._judge_changed(call.signature, before)
        return "applied"

    def compaction(self, event: Facts) -> Effect:
        state = self.state
        sequence = event.sequence
        if sequence is None:
            sequence = max(state.tool_sequence, state.compaction_sequence, 0)
        else:
            state.compaction_sequence = sequence
        if not event.arms:
            return "ignored"
        if sequence >= state.tool_sequence:
            state.guard.wait(sequence)
            return "applied"
        if not self.policy.guard_on:
            return "ignored"
        return self._late_compaction(sequence)

    def _late_compaction(self, sequence: int) -> Effect:
        state = self.state
        withdrawn = None
        if state.abort_window is not None and state.abort_window[0] < sequence < state.abort_window[1]:
            withdrawn = state.standing.pop(RUN, None)
        before = state.abort_window
        again = None
        if sequence >= state.lost_outcome:
            again = self._observe_after(sequence)
        else:
            state.guard.disarm()
        if withdrawn is not None:
            if (
                again is not None
                and before is not None
                and again.count == withdrawn.count
                and state.abort_window == (sequence, before[1])
            ):
                state.standing[RUN] = withdrawn  # found again at the same call: what was said holds
                again = None
            else:
                self._release(RUN, withdrawn, "changed")
        if again is not None:
            self._abort(again)
        return "late_compaction" if sequence >= state.lost_outcome else "ignored"

    def _observe_after(self, sequence: int) -> "_Found | None":
        state = self.state
        state.guard.arm(sequence, self.policy.guard_window)
        after = [
            call
            for call in state.history.calls
            if call.outcome is not None and call.outcome.sequence is not None and call.outcome.sequence > sequence
        ]
        found = [self._observe(call) for call in sorted(after, key=_outcome_sequence)]
        return next((abort for abort in found if abort is not None), None)

    def _observe(self, call: Call) -> "_Found | None":
        armed_at = self.state.guard.armed_at
        abort = self.state.guard.observe(call)
        if abort is None or call.outcome is None or armed_at is None:
            return None
        outcome = call.outcome
        self.state.abort_window = (armed_at, outcome.sequence if outcome.sequence is not None else armed_at)
        as_of = LastEvent(outcome.sequence, call.call_id, outcome.offset, outcome.time)
        return _Found(abort.tool, abort.count, abort.evidence, as_of)

    def _abort(self, found: "_Found") -> None:
        key = f"run:{self.state.run_id}"
        standing = Standing("abort", compaction_guard.NAME, found.count, key, mode=self.policy.mode_of(compaction_guard.NAME))
        self.state.standing[RUN] = standing
        self._emit(
            "abort",
            RUN,
            standing,
            message=abort_message(found.tool, found.count),
            evidence=tuple([EvidenceCall(sequence, call_id) for sequence, call_id in found.evidence]),
            as_of=found.as_of,
        )


def _outcome_sequence(call: Call) -> int:
    return call.outcome.sequence if call.outcome is not None and call.outcome.sequence is not None else -1
