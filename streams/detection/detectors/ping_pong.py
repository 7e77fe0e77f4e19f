"""Two calls that take turns."""

from schemas.policy import EffectivePolicy
from streams.detection.history import History, Signature
from streams.detection.verdict import Verdict, signature_key_text

NAME = "ping_pong"


def least(policy: EffectivePolicy) -> int:
    """Return the number of calls from which it may say something."""
    return policy.warning_threshold


def judge(history: History, signature: Signature, policy: EffectivePolicy) -> Verdict | None:
    """Warn from `warningThreshold` calls in turn; critical from `criticalThreshold` when neither side's outcome ever changes.

    The pending call counts, and must be the one whose turn it is. The warning does not look at outcomes.
    """
    if not history.alternates_with(signature):
        return None
    alternation = history.alternation()
    if alternation is None or alternation.length + 1 < policy.warning_threshold:
        return None
    count = alternation.length + 1
    critical = count >= policy.critical_threshold and _outcomes_constant(history)
    tool, paired = signature.key[0], alternation.last.key[0]
    pair = sorted((signature_key_text(signature.key), signature_key_text(alternation.last.key)))
    names = f"two different calls of {tool}" if tool == paired else f"{tool} and {paired}"
    advice = (
        ", always with the same outcomes, so it is refused: break the cycle"
        if critical
        else ": check whether the alternation still brings anything new"
    )
    return Verdict(
        detector=NAME,
        level="critical" if critical else "warning",
        count=count,
        warning_key=f"pair:{'|'.join(pair)}",
        message=f"With this call {names} have taken turns {count} times{advice}.",
        evidence=history.alternation_calls,
        paired_tool=paired,
    )


def _outcomes_constant(history: History) -> bool:
    sides: dict[int, bytes] = {}
    for call in history.alternation_calls():
        if call.outcome is None or sides.setdefault(id(call.signature), call.outcome.digest) != call.outcome.digest:
            return False
    return True
