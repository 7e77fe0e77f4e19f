"""The standing verdicts of a run: judged anew where something changed, and told as decisions."""

from dataclasses import replace
from typing import Literal

from mypy_extensions import mypyc_attr

from schemas.decisions import Action
from schemas.made_decisions import EvidenceCall, MadeDecision
from schemas.policy import EffectivePolicy, PolicyDocument
from streams.detection.decision_of_standing import decision_of
from streams.detection.detectors import first_verdict, rules_for, unknown_tool_repeat
from streams.detection.facts import RunPartition
from streams.detection.history import Alternation, Signature, SignatureKey
from streams.detection.run_state import RUN, LastEvent, RunState, Standing, TargetKey, announcement_key
from streams.detection.verdict import Verdict

#: Changes whenever the same events would give other decisions; stands in each decision.
ENGINE_VERSION = "1"

#: A warning is announced once per this many counts (the reference's number).
WARNING_BUCKET = 10


def standing_for(verdict: Verdict | None, state: RunState, policy: EffectivePolicy) -> Standing | None:
    """Return what a verdict means for the next call: refused, warned about, or (None) silently let through."""
    if verdict is None:
        return None
    if not verdict.critical and verdict.count // WARNING_BUCKET <= state.announced.get(announcement_key(verdict.warning_key), 0):
        return None
    action: Literal["block", "warn"] = "block" if verdict.critical else "warn"
    mode = policy.mode_of(verdict.detector)
    return Standing(action, verdict.detector, verdict.count, verdict.warning_key, verdict.paired_tool, mode)


@mypyc_attr(acyclic=True)
class StandingVerdicts:
    """What the next calls of a run would be told, and the decisions that a change of it brings."""

    __slots__ = ("decisions", "partition", "policy", "rules", "state")

    def __init__(self, state: RunState, partition: RunPartition, document: PolicyDocument) -> None:
        self.state = state
        self.partition = partition
        rules = state.rules
        if rules is None or state.rules_of is not document:
            rules = state.rules = rules_for(document, state.agent_id)
            state.rules_of = document
        self.rules = rules
        self.policy = rules.policy
        self.decisions: list[MadeDecision] = []

    def release_all(self) -> None:
        """Say of all that stands that it no longer does."""
        for target in sorted(self.state.standing, key=_sort_key):
            self._release(target, self.state.standing[target], "changed")

    # -- standing verdicts -----------------------------------------------------------------------------------------------------

    def _loud_alternation(self) -> Alternation | None:
        """Return the alternation that the history ends with, None when it is too short for any detector to speak of it."""
        history = self.state.history
        return history.alternation() if history.alternation_length + 1 >= self.rules.quiet_below else None

    def _judge_changed(self, signature: Signature, before: Alternation | None) -> None:
        """Judge the targets that an event may have changed; `before` is the loud alternation that was there before it."""
        state = self.state
        history = state.history
        dropped = history.trim(self.rules.history_size)
        loudest = max(signature.count, history.alternation_length + 1)
        for call in dropped:
            loudest = max(loudest, call.signature.count)
            if call.outcome is not None and call.outcome.sequence is not None:
                state.lost_outcome = max(state.lost_outcome, call.outcome.sequence)
        # Nothing stands, and nothing that the event may have changed has the number of calls to be spoken of: the usual case.
        if not state.standing and before is None and loudest < self.rules.quiet_below:
            missing = history.missing_tool()
            if missing is None or missing.length < self.rules.quiet_below:
                return
        changed = {signature.key: None, **{call.signature.key: None for call in dropped}}
        for alternation in (before, history.alternation()):
            if alternation is not None:
                changed[alternation.other.key] = changed[alternation.last.key] = None
        self._judge(changed)

    def judge_all(self) -> None:
        """Judge every target of the history, and those that have a verdict, under the policy now in force."""
        keys = set(self.state.history.signatures)
        keys.update(target for target in self.state.standing if len(target) == 2)
        self.state.policy_version = self.policy.version
        self._judge_run()
        self._judge(dict.fromkeys(sorted(keys)))

    def _judge_run(self) -> None:
        """Withdraw an abort when the guard is off now, and say so when its mode is another one."""
        standing = self.state.standing.get(RUN)
        if standing is None:
            return
        mode = self.policy.mode_of(standing.detector)
        if not self.policy.guard_on:
            del self.state.standing[RUN]
            self._release(RUN, standing, "changed")
        elif mode != standing.mode:
            self.state.standing[RUN] = replace(standing, mode=mode)
            self._emit("abort", RUN, self.state.standing[RUN], message=abort_message(None, standing.count))

    def _judge(self, keys: dict[SignatureKey, None]) -> None:
        state, policy = self.state, self.policy
        found = unknown_tool_repeat.judge(state.history, policy)
        tool_wide = {target[0] for target in state.standing if len(target) == 1}
        tools = tool_wide | ({found[0]} if found is not None else set())
        for tool in sorted(tools):
            verdict = found[1] if found is not None and found[0] == tool else None
            if (tool in tool_wide) != (verdict is not None):
                # A verdict on the whole tool answers for each of its signatures.
                keys.update(dict.fromkeys(sorted(key for key in state.history.signatures if key[0] == tool)))
                keys.update(dict.fromkeys(t for t in sorted(s for s in state.standing if len(s) == 2) if t[0] == tool))
            self._stand((tool,), verdict)
        for key in keys:
            self._stand(key, None if self._covered(key[0]) else self._verdict_of(key))

    def _covered(self, tool: str) -> bool:
        """Whether a verdict on a whole tool answers for its calls: one that is only reported hides nothing that is enforced."""
        whole = self.state.standing.get((tool,))
        return whole is not None and (whole.mode == "enforce" or self.policy.mode == "shadow")

    def _verdict_of(self, target: TargetKey) -> Verdict | None:
        history = self.state.history
        if len(target) == 1:
            found = unknown_tool_repeat.judge(history, self.policy)
            return found[1] if found is not None else None
        signature = history.signatures.get(target) if len(target) == 2 else None
        return None if signature is None else self._verdict_on(signature)

    def _verdict_on(self, signature: Signature) -> Verdict | None:
        """Return the verdict of the enforced detectors; what others would say first is reported where these are silent."""
        history, policy = self.state.history, self.policy
        first = first_verdict(self.rules.judges, history, signature, policy)
        if first is None or policy.mode == "shadow" or policy.mode_of(first.detector) == "enforce":
            return first
        enforced = first_verdict(self.rules.judges, history, signature, policy, only="enforce")
        return enforced if standing_for(enforced, self.state, policy) is not None else first

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
        evidence: tuple[EvidenceCall, ...] = (),
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
            evidence = tuple([EvidenceCall(call.sequence, call.call_id) for call in verdict.evidence()])
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


def abort_message(tool: str | None, count: int) -> str:
    """Return what an abort says; without a tool when it is not known any more."""
    subject = "the same tool" if tool is None else tool
    return (
        f"After a compaction {subject} was called {count} times in a row with the same arguments and the same outcome, "
        "so the run is ended."
    )


def _sort_key(target: TargetKey) -> tuple[str, ...]:
    return tuple(part if isinstance(part, str) else part.hex() for part in target)
