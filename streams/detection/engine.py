"""The engine: applies one event to a run's state and says how its standing verdicts changed.

After each event the question is which next calls the detectors would stop or warn about now. Only a few answers can have changed:
those of the event's own signature, of the signatures that left the history, and of the two sides of the alternation before and
after. A decision is emitted whenever the answer for a target changes, so that the decisions of a run, folded in order, are its
standing verdicts at any time.

Everything is a function of the sequence: whatever the interleaving of the two input topics, the same decisions come out. The one
exception cannot be helped: an abort that is contradicted by a compaction which is read after it is withdrawn by a `release`.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from schemas.decisions import Action, Decision
from schemas.policy import EffectivePolicy, PolicyDocument
from streams.detection import guard as compaction_guard
from streams.detection.decision_of_standing import decision_of
from streams.detection.detectors import first_verdict, rules_for, unknown_tool_repeat
from streams.detection.facts import Facts, RunPartition
from streams.detection.history import Alternation, Call, Outcome, Signature, SignatureKey
from streams.detection.run_state import RUN, LastEvent, RunState, Standing, TargetKey, announcement_key
from streams.detection.verdict import Verdict

#: Changes whenever the same events would give other decisions; stands in each decision.
ENGINE_VERSION = "1"

#: A warning is announced once per this many counts (the reference's number).
WARNING_BUCKET = 10

Effect = Literal["applied", "ignored", "duplicate", "redelivered", "late_compaction"]


class Applied(msgspec.Struct, frozen=True):
    """What became of an event: its effect, and the decisions that it brought.

    `ignored` events are valid but change nothing (an outcome without identity, a refused call, a compaction that is too late or
    without a retry); `duplicate` ones have a sequence that was passed; `redelivered` ones an offset that the state contains.
    """

    effect: Effect
    decisions: list[Decision]


def apply(state: RunState, event: Facts, policy: PolicyDocument, *, run_ttl_ms: int | None = None) -> Applied:
    """Apply one event to a run's state, in place.

    An event of the tool-calls topic that comes more than `run_ttl_ms` (event time) after the one before it starts the run afresh,
    whether or not the idle run was dropped meanwhile.
    """
    compaction = event.kind == "compaction"
    if event.offset <= (state.compaction_offset if compaction else state.tool_offset):
        return Applied("redelivered", [])
    if compaction:
        state.compaction_offset = event.offset
    else:
        state.tool_offset = event.offset
    passed = state.compaction_sequence if compaction else state.tool_sequence
    if event.sequence is not None and event.sequence <= passed:
        return Applied("duplicate", [])
    if state.ended:
        if compaction:
            return Applied("ignored", [])
        state.begin()
    if event.session_id is not None:
        state.session_id = event.session_id
    expired = []
    if run_ttl_ms is not None and not compaction and state.last is not None and event.time - state.last.time > run_ttl_ms:
        expired = expire(state, event.partition, policy)
    other_agent = event.agent_id is not None and event.agent_id != state.agent_id
    if other_agent:
        state.agent_id = event.agent_id
    turn = _Turn(state, event.partition, policy)
    if other_agent or state.policy_version != policy.version:
        turn.judge_all()
    state.last_time = max(state.last_time, event.time)
    effect = turn.compaction(event) if compaction else turn.tool_event(event)
    return Applied(effect, expired + turn.decisions if expired else turn.decisions)


def expire(state: RunState, partition: RunPartition, policy: PolicyDocument) -> list[Decision]:
    """Forget a run that has been idle for too long; what stood is released."""
    turn = _Turn(state, partition, policy)
    turn.release_all()
    state.policy_version = policy.version
    # What waits there came after the run's last tool call, so it belongs to what comes next.
    waiting = [sequence for sequence in state.guard.waiting if sequence >= state.tool_sequence]
    state.begin()
    for sequence in waiting:
        state.guard.wait(sequence)
    return turn.decisions


def judge_again(state: RunState, partition: RunPartition, policy: PolicyDocument) -> list[Decision]:
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


def standing_for(verdict: Verdict | None, state: RunState, policy: EffectivePolicy) -> Standing | None:
    """Return what a verdict means for the next call: refused, warned about, or (None) silently let through."""
    if verdict is None:
        return None
    if not verdict.critical and verdict.count // WARNING_BUCKET <= state.announced.get(announcement_key(verdict.warning_key), 0):
        return None
    action: Literal["block", "warn"] = "block" if verdict.critical else "warn"
    mode = policy.mode_of(verdict.detector)
    return Standing(action, verdict.detector, verdict.count, verdict.warning_key, verdict.paired_tool, mode)


class _Turn:
    """One event, or one change of policy, and the decisions that it brings."""

    __slots__ = ("decisions", "judges", "partition", "policy", "quiet_below", "state")

    def __init__(self, state: RunState, partition: RunPartition, document: PolicyDocument) -> None:
        self.state = state
        self.partition = partition
        self.policy, self.judges, self.quiet_below = rules_for(document, state.agent_id)
        self.decisions: list[Decision] = []

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

    def release_all(self) -> None:
        """Say of all that stands that it no longer does."""
        for target in sorted(self.state.standing, key=_sort_key):
            self._release(target, self.state.standing[target], "changed")

    def _end(self) -> None:
        self.release_all()
        self.state.begin()
        self.state.ended = True

    def _started(self, event: Facts, key: SignatureKey) -> Effect:
        state = self.state
        if state.standing:
            self._made(key)
        if not self.policy.records_calls:
            return "ignored"
        history = state.history
        before = self._loud_alternation()
        call = history.append(key, poll=event.poll, sequence=event.sequence, call_id=event.call_id)
        self._judge_changed(call.signature, before)
        return "applied"

    def _made(self, key: SignatureKey) -> None:
        """Say so when the call was to be refused, and count a warning about it as given."""
        state = self.state
        tool_wide: TargetKey = (key.tool,)
        target = tool_wide if tool_wide in state.standing else key_target(key)
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
        if self.state.guard.armed_at is not None and self.policy.guard_on:
            self._observe(call)
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
        standing = state.standing.get(RUN)
        if standing is not None and state.abort_window is not None and state.abort_window[0] < sequence < state.abort_window[1]:
            del state.standing[RUN]
            self._release(RUN, standing, "changed")
        if sequence < state.lost_outcome:
            state.guard.disarm()
            return "ignored"
        state.guard.arm(sequence, self.policy.guard_window)
        after = [
            call
            for call in state.history.calls
            if call.outcome is not None and call.outcome.sequence is not None and call.outcome.sequence > sequence
        ]
        for call in sorted(after, key=_outcome_sequence):
            self._observe(call)
        return "late_compaction"

    def _observe(self, call: Call) -> None:
        armed_at = self.state.guard.armed_at
        abort = self.state.guard.observe(call)
        if abort is None or call.outcome is None or armed_at is None:
            return
        outcome = call.outcome
        self.state.abort_window = (armed_at, outcome.sequence if outcome.sequence is not None else armed_at)
        key = f"run:{self.state.run_id}"
        standing = Standing("abort", compaction_guard.NAME, abort.count, key, mode=self.policy.mode_of(compaction_guard.NAME))
        self.state.standing[RUN] = standing
        self._emit(
            "abort",
            RUN,
            standing,
            message=f"After a compaction {abort.tool} was called {abort.count} times in a row with the same arguments "
            "and the same outcome, so the run is ended.",
            evidence=abort.evidence,
            as_of=LastEvent(outcome.sequence, call.call_id, outcome.offset, outcome.time),
        )

    # -- standing verdicts -----------------------------------------------------------------------------------------------------

    def _loud_alternation(self) -> Alternation | None:
        """Return the alternation that the history ends with, None when it is too short for any detector to speak of it."""
        history = self.state.history
        return history.alternation() if history.alternation_length + 1 >= self.quiet_below else None

    def _judge_changed(self, signature: Signature, before: Alternation | None) -> None:
        """Judge the targets that an event may have changed; `before` is the loud alternation that was there before it."""
        state = self.state
        history = state.history
        dropped = history.trim(self.policy.history_size)
        loudest = max(signature.count, history.alternation_length + 1)
        for call in dropped:
            loudest = max(loudest, call.signature.count)
            if call.outcome is not None and call.outcome.sequence is not None:
                state.lost_outcome = max(state.lost_outcome, call.outcome.sequence)
        # Nothing stands, and nothing that the event may have changed has the number of calls to be spoken of: the usual case.
        if not state.standing and before is None and loudest < self.quiet_below:
            missing = history.missing_tool()
            if missing is None or missing.length < self.quiet_below:
                return
        changed = {signature.key: None, **{call.signature.key: None for call in dropped}}
        for alternation in (before, history.alternation()):
            if alternation is not None:
                changed[alternation.other.key] = changed[alternation.last.key] = None
        self._judge(changed)

    def judge_all(self) -> None:
        """Judge every target of the history, and those that have a verdict, under the policy now in force."""
        keys = set(self.state.history.signatures)
        keys.update(SignatureKey(*target) for target in self.state.standing if len(target) == 2)
        self.state.policy_version = self.policy.version
        self._judge(dict.fromkeys(sorted(keys)))

    def _judge(self, keys: dict[SignatureKey, None]) -> None:
        state, policy = self.state, self.policy
        found = unknown_tool_repeat.judge(state.history, policy)
        tool_wide = {target[0] for target in state.standing if len(target) == 1}
        tools = tool_wide | ({found[0]} if found is not None else set())
        for tool in sorted(tools):
            verdict = found[1] if found is not None and found[0] == tool else None
            if (tool in tool_wide) != (verdict is not None):
                # A verdict on the whole tool answers for each of its signatures.
                keys.update(dict.fromkeys(sorted(key for key in state.history.signatures if key.tool == tool)))
                keys.update(
                    dict.fromkeys(SignatureKey(*t) for t in sorted(s for s in state.standing if len(s) == 2) if t[0] == tool)
                )
            self._stand((tool,), verdict)
        for key in keys:
            signature = state.history.signatures.get(key)
            covered = (key.tool,) in state.standing
            self._stand(
                key_target(key),
                None if signature is None or covered else first_verdict(self.judges, state.history, signature, policy),
            )

    def _verdict_of(self, target: TargetKey) -> Verdict | None:
        if len(target) == 1:
            found = unknown_tool_repeat.judge(self.state.history, self.policy)
            return found[1] if found is not None else None
        if len(target) == 2:
            signature = self.state.history.signatures.get(SignatureKey(*target))
            return None if signature is None else first_verdict(self.judges, self.state.history, signature, self.policy)
        return None

    def _stand(self, target: TargetKey, verdict: Verdict | None) -> None:
        old = self.state.standing.get(target)
        new = standing_for(verdict, self.state, self.policy)
        if new is None:
            if old is not None:
                del self.state.standing[target]
                self._release(target, old, "changed")
            return
        self.state.standing[target] = new
        if old is None or not new.says_the_same(old):
            self._emit(new.action, target, new, verdict=verdict)

    # -- decisions -------------------------------------------------------------------------------------------------------------

    def _release(self, target: TargetKey, standing: Standing, reason: Literal["used", "changed"]) -> None:
        subject = "the run" if not target else target[0]
        message = (
            f"The warning about call {standing.count} of {subject} was given with the call it is about."
            if reason == "used"
            else f"What was said about {subject} at a count of {standing.count} no longer holds."
        )
        self._emit("release", target, standing, message=message, reason=reason)

    def _emit(
        self,
        action: Action,
        target: TargetKey,
        standing: Standing,
        *,
        verdict: Verdict | None = None,
        message: str = "",
        evidence: Iterable[tuple[int | None, str | None]] = (),
        reason: Literal["used", "changed"] | None = None,
        late: bool = False,
        as_of: LastEvent | None = None,
    ) -> None:
        state, policy = self.state, self.policy
        event = as_of or state.last
        if event is None or state.since is None:
            return  # no tool call yet: nothing stands
        if verdict is not None:
            message = verdict.message
            evidence = [(call.sequence, call.call_id) for call in verdict.evidence()]
        self.decisions.append(
            decision_of(
                state,
                self.partition,
                action=action,
                target=target,
                standing=standing,
                as_of=event,
                since=state.since,
                policy_version=policy.version,
                engine_version=ENGINE_VERSION,
                message=message,
                evidence=evidence,
                reason=reason,
                late=late,
            )
        )


def key_target(key: SignatureKey) -> tuple[str, bytes]:
    """Return the target of the calls with a signature."""
    return (key.tool, key.args_hash)


def _sort_key(target: TargetKey) -> tuple[str, ...]:
    return tuple(part if isinstance(part, str) else part.hex() for part in target)


def _outcome_sequence(call: Call) -> int:
    return call.outcome.sequence if call.outcome is not None and call.outcome.sequence is not None else -1
