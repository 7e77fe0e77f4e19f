"""The detectors, one a module, and which of them a policy puts in force.

A detector module has a `NAME`, `judge(history, signature, policy)`: its verdict about the next call with that signature, or None,
and `least(policy)`: it says nothing as long as fewer calls than that have the signature, take turns with it (the pending one
included) or miss the same tool. Detectors are asked in order and the first verdict counts. Nothing outside `streams.detection`
knows one by name.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import final

from schemas.policy import EffectivePolicy, PolicyDocument
from schemas.policy.model import Mode
from streams.detection.detectors import (
    generic_repeat,
    global_circuit_breaker,
    known_poll_no_progress,
    ping_pong,
    unknown_tool_repeat,
)
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict

Judge = Callable[[History, Signature, EffectivePolicy], Verdict | None]


@final
class Rules:
    """What holds for an agent: its policy, the detectors of single calls in force, and the counts below which all are silent.

    `unknown_tool_repeat` goes before them all but is about every call to a tool, so the engine asks it by itself; `quiet_below`
    counts it in. `history_size` and `records_calls` are the policy's: every event asks for them.
    """

    __slots__ = ("history_size", "judges", "policy", "quiet_below", "records_calls")

    def __init__(self, policy: EffectivePolicy, judges: tuple[Judge, ...], quiet_below: int) -> None:
        self.policy = policy
        self.judges = judges
        self.quiet_below = quiet_below
        self.history_size: int = policy.history_size
        self.records_calls: bool = policy.records_calls


# Bounded: agent ids come from the wire.
@lru_cache(maxsize=4096)
def rules_for(document: PolicyDocument, agent_id: str | None) -> Rules:
    """Return what holds for an agent; the detectors are in the order of the reference."""
    policy = document.for_agent(agent_id)
    detectors = [global_circuit_breaker]
    if policy.known_poll_no_progress:
        detectors.append(known_poll_no_progress)
    if policy.ping_pong:
        detectors.append(ping_pong)
    if policy.generic_repeat:
        detectors.append(generic_repeat)
    if not policy.detectors_on:
        detectors.clear()
    quiet_below = min(detector.least(policy) for detector in (*detectors, unknown_tool_repeat))
    return Rules(policy, tuple(detector.judge for detector in detectors), quiet_below)


def first_verdict(
    judges: tuple[Judge, ...], history: History, signature: Signature, policy: EffectivePolicy, *, only: Mode | None = None
) -> Verdict | None:
    """Return the first verdict about the next call with this signature, of the detectors in one mode on demand."""
    for judge in judges:
        verdict = judge(history, signature, policy)
        if verdict is not None and (only is None or policy.mode_of(verdict.detector) == only):
            return verdict
    return None
