"""Why a decision was made: the calls it rests on, the policy behind it, and what came of it."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from schemas.decisions import Decision
from schemas.made_decisions import MadeDecision
from schemas.policy import EffectivePolicy
from streams.audit.inputs import Input, InputRecord
from streams.audit.payloads import FieldDifference, differences, payload_of
from streams.audit.policy_timeline import Era
from streams.audit.replayer import Replayer
from streams.detection.history import Call

#: Starts of calls that are remembered; more than any history has.
_STARTS_KEPT = 10_000

Outcome = Literal["enforced", "late", "not_enforced", "given", "shadow", "nothing_followed", "withdrawn", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallThatCounts:
    """A call that the decision rests on; places are `topic[partition]@offset`, times milliseconds since 1970.

    `outcome` is the beginning of the outcome's hash; equal ones mean that nothing new came of the call.
    """

    sequence: int | None
    call_id: str | None
    tool: str
    args_hash: str
    started: str | None
    started_at: int | None
    finished: str | None
    finished_at: int | None
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A decision about the run as gateways could read it: where it is, when it was decided and when the broker got it."""

    decision_id: str
    action: str
    detector: str
    count: int
    about: str
    record: str
    decided_at: int | None
    published_at: int
    as_of_sequence: int | None
    late: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What the gateway did: `event` is the record that shows it, `time` the event's, `after_ms` counts from publication to it."""

    outcome: Outcome
    event: str | None = None
    time: int | None = None
    after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBehind:
    """The settings that the decision rests on; `marker` and `since` tell when they came into force, if that is still known."""

    version: str
    known: bool
    settings: dict[str, Any] = field(default_factory=dict)
    mode: str | None = None
    marker: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole story of one decision.

    `recomputed` says whether the recorded events give the same decision again: `equal`, `different` (see `fields`), `not found`,
    or why nothing can be said.
    """

    decision: Decision
    record: str
    published_at: int
    policy: PolicyBehind
    calls: tuple[CallThatCounts, ...]
    told: tuple[Told, ...]
    aftermath: Aftermath
    recomputed: str
    fields: tuple[FieldDifference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the story for programs."""
        parts = {name: value for name, value in asdict(self).items() if name not in ("decision", "fields")}
        return {
            "decision": self.decision.model_dump(mode="json", exclude_none=True),
            **parts,
            "fields": [one._asdict() for one in self.fields],
        }


class Retelling:
    """Replays one run up to a decision and remembers what the decision rests on."""

    def __init__(self, decision: Decision, replayer: Replayer, *, topic: str) -> None:
        self.decision = decision
        self.fields: tuple[FieldDifference, ...] = ()
        self.recomputed = "not found"
        self.calls: tuple[CallThatCounts, ...] = ()
        self.replayer = replayer
        self._place = f"{topic}[{decision.as_of.partition}]@"
        self._starts: dict[int, Input] = {}
        self._since: int | None = None

    def feed(self, event: Input) -> None:
        """Take in the next event of the run."""
        for one in self.replayer.feed(event):
            self._look_at(one.decision)
        state = self.replayer.standing(event.run_id)
        if state is None or not state.history.calls or event.facts.kind == "compaction":
            return
        if state.since != self._since:
            self._starts.clear()  # the run began afresh, and its calls count from 0 again
            self._since = state.since
        newest = state.history.calls[-1].ordinal
        if newest not in self._starts:
            self._starts[newest] = event
            self._starts.pop(newest - _STARTS_KEPT, None)

    def finish(self) -> None:
        """Look at what comes without an event, such as judging again under another policy."""
        for one in self.replayer.finish():
            self._look_at(one.decision)

    def _look_at(self, decision: MadeDecision) -> None:
        if decision.decision_id != self.decision.decision_id:
            return
        self.fields = differences(payload_of(self.decision), payload_of(decision))
        self.recomputed = "different" if self.fields else "equal"

    def remember_calls(self) -> None:
        """Find the calls of the evidence in the history as it is now."""
        state = self.replayer.standing(self.decision.run_id)
        history = [] if state is None else list(reversed(state.history.calls))
        found: list[CallThatCounts] = []
        for wanted in self.decision.evidence:
            match = next((call for call in history if (call.sequence, call.call_id) == (wanted.sequence, wanted.call_id)), None)
            if match is not None:
                history.remove(match)  # without sequences several calls look alike
                found.append(self._call(match))
        self.calls = tuple(reversed(found))

    def _call(self, call: Call) -> CallThatCounts:
        begun = self._starts.get(call.ordinal)
        started = begun.facts if begun is not None and begun.facts.kind == "started" else None
        outcome = call.outcome
        return CallThatCounts(
            sequence=call.sequence,
            call_id=call.call_id,
            tool=call.signature.key[0],
            args_hash=call.signature.key[1].hex(),
            started=None if started is None else f"{self._place}{started.offset}",
            started_at=None if started is None else started.time,
            finished=None if outcome is None else f"{self._place}{outcome.offset}",
            finished_at=None if outcome is None else outcome.time,
            outcome=None if outcome is None else outcome.digest.hex(),
        )


def policy_behind(decision: Decision, eras: list[Era]) -> PolicyBehind:
    """Return the settings behind a decision, from the era of its policy."""
    era = next((era for era in reversed(eras) if era.version == decision.policy_version), None)
    if era is None or era.policy is None:
        return PolicyBehind(version=decision.policy_version, known=False)
    effective: EffectivePolicy = era.policy.for_agent(decision.agent_id)
    return PolicyBehind(
        version=decision.policy_version,
        known=True,
        settings=effective.as_loop_detection(),
        mode=effective.mode_of(decision.detector),
        marker=None if era.marker is None else str(era.marker),
        since=era.applied_at,
    )


def aftermath_of(decision: Decision, published_at: int, following: list[tuple[Input, InputRecord]]) -> Aftermath | None:
    """Say what came of a decision, from the run's events after the one it is as of; None while nothing of it shows."""
    if decision.mode == "shadow":
        return Aftermath(outcome="shadow")
    if decision.action == "release":
        return Aftermath(outcome="withdrawn")
    for event, record in following:
        facts = event.facts
        place = f"{record.topic}[{record.partition}]@{record.offset}"
        # By the records' own times: those of the events may be a gateway's idea of time, or imported.
        happened: dict[str, Any] = {"event": place, "time": facts.time, "after_ms": event.timestamp - published_at}
        if facts.kind == "ended":
            return Aftermath(outcome="enforced" if decision.action == "abort" else "nothing_followed", **happened)
        if facts.kind not in ("started", "blocked") or not _is_about(decision, event):
            continue
        if facts.kind == "blocked":
            return Aftermath(outcome="enforced", **happened)
        if decision.action == "warn":
            return Aftermath(outcome="given" if event.timestamp >= published_at else "late", **happened)
        return Aftermath(outcome="not_enforced" if event.timestamp >= published_at else "late", **happened)
    return None


def _is_about(decision: Decision, event: Input) -> bool:
    key, target = event.facts.key, decision.target
    if target.scope == "run" or key is None:
        return target.scope == "run"
    return key[0] == target.tool and (target.args_hash is None or key[1].hex() == target.args_hash)
