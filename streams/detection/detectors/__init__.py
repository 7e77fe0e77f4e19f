"""The detectors, one a module, and which of them a policy puts in force.

A detector module has a `NAME` and `judge(history, signature, policy)`: its verdict about the next call with that signature, or
None. Detectors are asked in order and the first verdict counts. Nothing outside `streams.detection` knows one by name.
"""

from collections.abc import Callable
from functools import lru_cache

from schemas.policy import EffectivePolicy
from streams.detection.detectors import generic_repeat, global_circuit_breaker, known_poll_no_progress, ping_pong
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict

Judge = Callable[[History, Signature, EffectivePolicy], Verdict | None]


@lru_cache(maxsize=1024)
def judges_in_force(policy: EffectivePolicy) -> tuple[Judge, ...]:
    """Return the detectors of single calls that a policy switches on, in the order of the reference.

    `unknown_tool_repeat` goes before them all but is about every call to a tool, so the engine asks it by itself.
    """
    if not policy.detectors_on:
        return ()
    judges: list[Judge] = [global_circuit_breaker.judge]
    if policy.known_poll_no_progress:
        judges.append(known_poll_no_progress.judge)
    if policy.ping_pong:
        judges.append(ping_pong.judge)
    if policy.generic_repeat:
        judges.append(generic_repeat.judge)
    return tuple(judges)


def first_verdict(judges: tuple[Judge, ...], history: History, signature: Signature, policy: EffectivePolicy) -> Verdict | None:
    """Return the first verdict about the next call with this signature."""
    for judge in judges:
        verdict = judge(history, signature, policy)
        if verdict is not None:
            return verdict
    return None
