"""Writes a standing verdict that appeared, changed or went away as a decision."""

from typing import Literal

from schemas.decisions import Action, Level, decision_id
from schemas.made_decisions import AsOf, EvidenceCall, MadeDecision, Origin, Target
from streams.detection.facts import RunPartition
from streams.detection.run_state import LastEvent, RunState, Standing, TargetKey


def decision_of(
    state: RunState,
    partition: RunPartition,
    *,
    action: Action,
    target: TargetKey,
    standing: Standing,
    as_of: LastEvent,
    since: int,
    policy_version: str,
    engine_version: str,
    message: str,
    evidence: tuple[EvidenceCall, ...],
    reason: Literal["used", "changed"] | None,
    late: bool,
) -> MadeDecision:
    """Return the decision; `since` is the offset of the run's first tool-call event."""
    level: Level = "warning" if standing.action == "warn" else "critical"
    topic, number = partition
    dated = AsOf(topic, number, as_of.offset, sequence=as_of.sequence, call_id=as_of.call_id, time=as_of.time)
    about = _target(target)
    return MadeDecision(
        decision_id=decision_id(
            policy_version=policy_version,
            run_id=state.run_id,
            action=action,
            target=about,
            detector=standing.detector,
            count=standing.count,
            as_of=dated,
            mode=standing.mode,
        ),
        run_id=state.run_id,
        session_id=state.session_id,
        agent_id=state.agent_id,
        action=action,
        level=level,
        detector=standing.detector,
        target=about,
        count=standing.count,
        paired_tool=standing.paired_tool,
        reason=reason,
        message=message,
        warning_key=standing.warning_key,
        late=late,
        mode=standing.mode,
        policy_version=policy_version,
        engine_version=engine_version,
        since=Origin(topic, number, since),
        as_of=dated,
        evidence=evidence,
    )


def _target(target: TargetKey) -> Target:
    if not target:
        return Target("run")
    if len(target) == 1:
        return Target("tool", target[0])
    return Target("call", target[0], target[1].hex())
